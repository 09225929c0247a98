"""The order of samples: the same for every world, and no sample lost or repeated."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.errors import InvalidInput
from convoy.trainer.sampler import GlobalSampler, share

sizes = st.integers(1, 200)


@given(sizes, st.integers(1, 300), st.integers(1, 20), st.integers(0, 5))
def test_a_batch_is_the_same_however_many_share_it(size: int, batch: int, world: int, seed: int) -> None:
    sampler = GlobalSampler(size, batch, seed)
    for _ in range(3):
        whole = sampler.batch()
        parts = [sampler.batch(rank, world) for rank in range(world)]
        assert np.array_equal(whole, np.concatenate(parts))
        assert len(whole) == batch
        lengths = [len(part) for part in parts]
        assert max(lengths) - min(lengths) <= 1
        sampler.advance()


@given(sizes, st.integers(1, 300), st.integers(0, 5))
def test_each_epoch_has_each_sample_once(size: int, batch: int, seed: int) -> None:
    sampler = GlobalSampler(size, batch, seed)
    seen: list[int] = []
    while len(seen) < 3 * size:
        seen += sampler.batch().tolist()
        sampler.advance()
    for epoch in range(3):
        assert sorted(seen[epoch * size : (epoch + 1) * size]) == list(range(size))


@given(sizes, st.integers(1, 300), st.integers(0, 30), st.integers(1, 8))
def test_it_goes_on_where_a_checkpoint_was_made(size: int, batch: int, steps: int, world: int) -> None:
    sampler = GlobalSampler(size, batch, 3)
    for _ in range(steps):
        sampler.advance()
    again = GlobalSampler(size, batch, 3)
    again.restore(sampler.state())
    assert again.epoch == sampler.epoch
    assert np.array_equal(again.batch(world - 1, world), sampler.batch(world - 1, world))


def test_the_order_is_fixed_for_ever() -> None:
    assert GlobalSampler(10, 4, seed=7).order(0).tolist() == ORDER_0
    assert GlobalSampler(10, 4, seed=7).order(1).tolist() == ORDER_1


ORDER_0 = [4, 5, 9, 8, 1, 7, 6, 0, 2, 3]
ORDER_1 = [8, 6, 9, 5, 0, 7, 3, 4, 1, 2]


@pytest.mark.parametrize("change", [{"size": 11}, {"global_batch": 5}, {"seed": 8}])
def test_another_data_set_batch_or_seed_is_refused(change: dict[str, int]) -> None:
    state = GlobalSampler(10, 4, 7).state()
    (name,) = change
    with pytest.raises(InvalidInput, match=f"^{name} is"):
        GlobalSampler(**({"size": 10, "global_batch": 4, "seed": 7} | change)).restore(state)


def test_nothing_to_sample_is_refused() -> None:
    with pytest.raises(InvalidInput):
        GlobalSampler(0, 4)


@given(st.integers(0, 1000), st.integers(1, 50))
def test_shares_cover_everything_once(total: int, world: int) -> None:
    ends = [share(total, rank, world) for rank in range(world)]
    assert ends[0][0] == 0
    assert ends[-1][1] == total
    assert all(first[1] == second[0] for first, second in itertools.pairwise(ends))
