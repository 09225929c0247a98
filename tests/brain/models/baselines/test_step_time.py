"""Sums of known terms: the truth is recovered from data that their own formulas made."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.models.baselines import DLRoverRM, Ernest, Optimus, Pollux

NOTHING = pd.DataFrame({"workers": []})
SIZES = [(w, p) for w in range(1, 9) for p in range(1, 9)]
SEEN = [(1, 1), (2, 1), (1, 4), (4, 2), (8, 8), (3, 5), (8, 1), (6, 3), (5, 7)]
coefficient = st.floats(0.001, 10.0)


def servers(seconds: dict[tuple[int, int], float], samples: float, **columns: object) -> pd.DataFrame:
    rows = [(w, p, samples / seconds[w, p]) for w, p in SIZES]
    return pd.DataFrame(rows, columns=["workers", "ps", "throughput"]).assign(strategy="ps", **columns)


def split(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    seen = pd.Series([pair in SEEN for pair in zip(frame["workers"], frame["ps"], strict=True)], index=frame.index)
    return frame[seen], frame[~seen]


@given(st.tuples(*[coefficient] * 5))
def test_optimus_synchronous(c: tuple[float, ...]) -> None:
    batch = 64.0
    seconds = {(w, p): c[0] * batch / w + c[1] * w / p + c[2] * w + c[3] * p + c[4] for w, p in SIZES}
    frame = servers(seconds, batch, mode="sync")
    seen, asked = split(frame.assign(batch_size=batch / frame["workers"]))
    found = Optimus().fit(NOTHING).predict(seen, asked.drop(columns="throughput"))
    assert found["mean"].to_numpy() == pytest.approx(asked["throughput"].to_numpy(), rel=1e-3)
    assert (found["reason"] == "Fitted").all()


@given(st.tuples(*[coefficient] * 4))
def test_optimus_asynchronous(c: tuple[float, ...]) -> None:
    rows = [(w, p, w / (c[0] + c[1] * w / p + c[2] * w + c[3] * p)) for w, p in SIZES]
    frame = pd.DataFrame(rows, columns=["workers", "ps", "throughput"]).assign(strategy="ps", mode="async")
    seen, asked = split(frame)
    found = Optimus().fit(NOTHING).predict(seen, asked)
    assert found["mean"].to_numpy() == pytest.approx(asked["throughput"].to_numpy(), rel=1e-3)


@given(st.tuples(*[coefficient] * 4))
def test_dlrover(c: tuple[float, ...]) -> None:
    batch = 64.0
    seconds = {(w, p): c[0] * batch / w + c[1] * w / p + c[2] * batch / w / p + c[3] for w, p in SIZES}
    frame = servers(seconds, batch, mode="sync")
    seen, asked = split(frame.assign(batch_size=batch / frame["workers"]))
    found = DLRoverRM().fit(NOTHING).predict(seen, asked)
    assert found["mean"].to_numpy() == pytest.approx(asked["throughput"].to_numpy(), rel=1e-3)


@given(st.tuples(*[coefficient] * 4))
def test_ernest_of_a_run_that_is_the_same_work_everywhere(c: tuple[float, ...]) -> None:
    workers = np.arange(1.0, 33.0)
    seconds = c[0] + c[1] / workers + c[2] * np.log(workers) + c[3] * workers
    frame = pd.DataFrame({"workers": workers, "throughput": 1.0 / seconds})
    found = Ernest().fit(NOTHING).predict(frame.iloc[::5], frame)
    assert found["mean"].to_numpy() == pytest.approx(frame["throughput"].to_numpy(), rel=1e-3)


@given(st.floats(0.01, 0.5), st.floats(0.0005, 0.02), st.floats(0.01, 0.3), st.floats(1.0, 3.0))
def test_pollux(fixed: float, per_sample: float, sync: float, gamma: float) -> None:
    rows = []
    for workers in (1, 2, 4, 8, 16):
        for batch in (8, 16, 32, 64, 128):
            compute = fixed + per_sample * batch
            nodes = 1 if workers <= 4 else workers // 4
            between = 0.0 if workers == 1 else (sync + 0.02 * sync * (workers - 2)) * (1.0 if nodes == 1 else 2.0)
            step = (compute**gamma + between**gamma) ** (1 / gamma)
            rows.append((workers, nodes, batch, workers * batch / step, compute))
    names = ["workers", "nodes", "batch_size", "throughput", "compute_seconds"]
    frame = pd.DataFrame(rows, columns=names).assign(strategy="allreduce")
    found = Pollux().fit(NOTHING).predict(frame.iloc[::2], frame)
    assert np.median(np.abs(found["mean"] / frame["throughput"] - 1)) < 0.03


def test_pollux_takes_what_was_never_seen_for_free() -> None:
    one = pd.DataFrame({"workers": [1.0], "nodes": [1.0], "batch_size": [32.0], "throughput": [320.0]})
    asked = pd.DataFrame({"workers": [1.0, 8.0], "nodes": [1.0, 1.0], "batch_size": [32.0, 32.0]})
    found = Pollux().fit(NOTHING).predict(one, asked)
    assert found["mean"].to_numpy() == pytest.approx([320.0, 8 * 320.0], rel=1e-2)


def test_pollux_counts_micro_steps() -> None:
    asked = pd.DataFrame({"workers": [2.0, 2.0], "nodes": 1.0, "batch_size": 32.0, "accumulation_steps": [1.0, 4.0]})
    seen = pd.DataFrame(
        [(1.0, 32.0, 320.0, 0.1), (2.0, 32.0, 400.0, 0.1), (2.0, 16.0, 250.0, 0.06)],
        columns=["workers", "batch_size", "throughput", "compute_seconds"],
    ).assign(nodes=1.0)
    found = Pollux().fit(NOTHING).predict(seen, asked)["mean"]
    assert found[1] > 1.2 * found[0]  # one synchronization for four micro-steps
