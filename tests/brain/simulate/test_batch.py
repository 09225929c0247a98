"""A global batch is dealt in micro-batches that fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.simulate.batch import Batch, dealt


@given(batch=st.integers(16, 1024), replicas=st.integers(1, 16), fits=st.integers(1, 64))
def test_shares_fit_and_add_up(batch: int, replicas: int, fits: int) -> None:
    found = dealt(batch, replicas, initial=16.0, largest=1024.0, largest_local=fits)
    assert 1 <= found.local <= fits
    assert found.samples(replicas) <= 1024 or found.local == 1
    rounding = replicas * found.accumulation
    assert found.samples(replicas) > min(batch, 1024) - rounding
    assert found.samples(replicas) < batch + rounding


def test_one_replica_with_more_than_the_initial_batch_takes_two_micro_batches() -> None:
    assert dealt(32, 1, initial=16, largest=1024, largest_local=64) == Batch(16, 2)
    assert dealt(16, 1, initial=16, largest=1024, largest_local=64) == Batch(16, 1)
    assert dealt(32, 2, initial=16, largest=1024, largest_local=64) == Batch(16, 1)
