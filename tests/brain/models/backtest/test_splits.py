"""Which rows are seen and which are predicted."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.models.backtest.splits import Protocol, cases, draws, small_and_big


def servers(mode: str = "sync") -> pd.DataFrame:
    sizes = [(float(w), float(p)) for w in range(1, 9) for p in range(1, 9)]
    return pd.DataFrame(sizes, columns=["workers", "ps"]).assign(strategy="ps", mode=mode)


@given(st.integers(2, 40), st.integers(1, 50), st.text(max_size=5))
def test_interpolation_parts_a_job_in_two(rows: int, k: int, job: str) -> None:
    frame = pd.DataFrame({"workers": np.arange(1.0, rows + 1)})
    found = list(cases(Protocol.INTERPOLATE, job, frame, (k,), seeds=4))
    assert len(found) == (draws(k, 4) if k < rows else 0)
    for case in found:
        assert len(case.seen) == k
        assert sorted([*case.seen, *case.asked]) == list(range(rows))


def test_draws_follow_from_job_k_and_seed_alone() -> None:
    frame = pd.DataFrame({"workers": np.arange(1.0, 30.0)})

    def seen(job: str, k: int) -> list[list[int]]:
        return [case.seen.tolist() for case in cases(Protocol.INTERPOLATE, job, frame, (k,), 30)]

    assert seen("a", 2) == seen("a", 2)
    assert seen("a", 2) != seen("b", 2)
    assert len(seen("a", 2)) == 30
    assert len(seen("a", 3)) == 10
    assert len({tuple(rows) for rows in seen("a", 2)}) > 20


def test_extrapolation_sees_small_ones_and_predicts_big_ones() -> None:
    frame = servers()
    for case in cases(Protocol.EXTRAPOLATE, "a", frame, (5,), 6):
        seen, asked = frame.iloc[case.seen], frame.iloc[case.asked]
        assert (seen[["workers", "ps"]] <= 5).all(axis=None)
        assert ((asked["workers"] > 5) | (asked["ps"] > 5)).all()
        assert len(asked) == 64 - 25


def test_what_is_small_depends_on_the_kind_of_job() -> None:
    frame = servers("async")
    small, big = small_and_big(frame)
    assert set(frame["workers"].iloc[small]) == {1, 2, 3, 4}
    assert set(frame["workers"].iloc[big]) == {5, 6, 7, 8}
    reduce = pd.DataFrame({"workers": [1.0, 4.0, 5.0, 7.0, 8.0, 64.0], "strategy": "allreduce"})
    small, big = small_and_big(reduce)
    assert small.tolist() == [0, 1]
    assert big.tolist() == [4, 5]


def test_too_few_rows_make_no_case() -> None:
    frame = pd.DataFrame({"workers": [1.0, 2.0, 16.0]})
    assert not list(cases(Protocol.EXTRAPOLATE, "a", frame, (3,), 5))
    assert not list(cases(Protocol.INTERPOLATE, "a", frame, (3, 0), 5))
    assert [len(case.asked) for case in cases(Protocol.COLD, "a", frame, (0,), 5)] == [3]
