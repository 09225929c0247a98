"""Load at configurations that a job hasn't seen: what bounds it, what is undefined, what history teaches."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models import LoadModel
from convoy.brain.models.load.line import Default, Readings, learn_line
from convoy.brain.models.load.model import PARTS, QUANTITIES
from convoy.brain.models.load.readings import used_at, wanted
from convoy.brain.models.state import State

GIB = 2.0**30


def servers(jobs: int, seed: int, prefix: str = "job") -> pd.DataFrame:
    """Return synchronous jobs with servers whose use is known; cores saturate at 2."""
    generator = np.random.default_rng(seed)
    rows = []
    for number in range(jobs):
        size, busy, work = np.exp(0.4 * generator.standard_normal(3))
        for workers in (1, 2, 4, 8):
            for ps in (1, 2, 4, 8):
                batch = 128.0 / workers
                compute, push = 0.02 + 0.004 * work * batch, 0.05 * size * workers / ps
                step = (compute**1.7 + push**1.7) ** (1 / 1.7)
                scatter = np.exp(0.03 * generator.standard_normal(5))
                demand = 3.0 * busy * push / step
                rows.append(
                    {
                        "job": f"{prefix}-{number}",
                        "strategy": "ps",
                        "mode": "sync",
                        "workers": float(workers),
                        "ps": float(ps),
                        "batch_size": batch,
                        "worker_cpu": 2.0,
                        "ps_cpu": 2.0,
                        "throughput": 128.0 / step * scatter[0],
                        "worker_cpu_used": min(2.0, 1.5 * compute / step * scatter[1]),
                        "ps_cpu_used": min(2.0, demand / (1 + demand / 2.0) * scatter[2]),
                        "worker_memory_used": (1.0 + size) * GIB * batch**0.3 * scatter[3],
                        "ps_memory_used": 2.0 * size * GIB * ps**-0.8 * scatter[4],
                    }
                )
    return pd.DataFrame(rows)


HISTORY = servers(6, seed=1)
MINE = servers(1, seed=2, prefix="mine")
MODEL = LoadModel().fit(HISTORY)
COLUMNS = ["job", "strategy", "mode", "workers", "ps", "batch_size", "worker_cpu", "ps_cpu"]


def ratio(answer: pd.DataFrame, rows: pd.DataFrame, quantity: str) -> np.ndarray:
    return np.abs(np.log(answer[f"{quantity}_mean"].to_numpy() / rows[f"{quantity}_used"].to_numpy()))


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_two_readings_and_the_history_tell_the_rest(quantity: str) -> None:
    answer = MODEL.predict(MINE.iloc[[0, 10]], MINE[COLUMNS])
    assert np.median(ratio(answer, MINE, quantity)) < 0.15
    inside = (answer[f"{quantity}_lower"] <= MINE[f"{quantity}_used"]) & (
        MINE[f"{quantity}_used"] <= answer[f"{quantity}_upper"]
    )
    assert inside.mean() >= 0.75
    assert list(answer[f"{quantity}_reason"].iloc[[0, 10]]) == ["Observed", "Observed"]


@pytest.mark.parametrize("quantity", QUANTITIES)
def test_history_beats_having_none(quantity: str) -> None:
    seen = MINE.iloc[[0]]
    taught = ratio(MODEL.predict(seen, MINE[COLUMNS]), MINE, quantity)
    alone = ratio(LoadModel().fit(pd.DataFrame()).predict(seen, MINE[COLUMNS]), MINE, quantity)
    assert np.mean(taught) < np.mean(alone)


@settings(max_examples=25, deadline=None)
@given(
    cores=st.floats(0.01, 64.0),
    memory=st.floats(1e6, 1e12),
    workers=st.integers(1, 200),
    ps=st.integers(1, 100),
    batch=st.floats(1.0, 1e5),
)
def test_never_above_the_allotment_and_in_order(
    cores: float, memory: float, workers: int, ps: int, batch: float
) -> None:
    query = pd.DataFrame(
        {
            "job": ["mine-0"],
            "strategy": "ps",
            "workers": float(workers),
            "ps": float(ps),
            "batch_size": batch,
            "worker_cpu": cores,
            "ps_cpu": cores,
            "worker_memory": memory,
            "ps_memory": memory,
        }
    )
    answer = MODEL.predict(MINE.iloc[[3, 7]], query).iloc[0]
    for name in QUANTITIES:
        mean, lower, upper = (answer[f"{name}_{part}"] for part in PARTS)
        assert 0 < lower <= mean <= upper <= query[name].iloc[0]


def test_without_a_reading_anywhere_there_is_no_answer() -> None:
    nothing = [f"{name}_used" for name in QUANTITIES]
    answer = (
        LoadModel().fit(HISTORY.drop(columns=nothing)).predict(MINE.iloc[:2].drop(columns=nothing), MINE[COLUMNS])
    )
    assert set(answer["reason"]) == {"NoReading"}
    assert answer[[f"{name}_{part}" for name in QUANTITIES for part in PARTS]].isna().all(axis=None)


def test_one_quantity_may_be_known_without_the_others() -> None:
    only = MINE.iloc[:3].drop(columns=["worker_cpu_used", "ps_cpu_used", "ps_memory_used"])
    answer = LoadModel().fit(pd.DataFrame()).predict(only, MINE[COLUMNS])
    assert answer["worker_memory_mean"].notna().all()
    assert set(answer["ps_memory_reason"]) == {"NoReading"}
    assert set(answer["worker_cpu_reason"]) == {"NoReading"}
    assert set(answer["reason"]) <= {"Observed", "Interpolated", "NoHistory"}


def test_all_reduce_has_no_servers() -> None:
    mine = MINE.assign(strategy="allreduce", ps=0.0)
    answer = MODEL.predict(mine.iloc[:3], mine[COLUMNS])
    assert set(answer["ps_cpu_reason"]) == set(answer["ps_memory_reason"]) == {"NoServers"}
    assert answer["ps_cpu_mean"].isna().all()
    assert answer["worker_cpu_mean"].notna().all()


def test_what_isnt_a_configuration_is_undefined_and_spoils_nothing_else() -> None:
    query = MINE[COLUMNS].iloc[[0, 1, 2]].reset_index(drop=True)
    query.loc[1, "workers"] = 0.0
    answer = MODEL.predict(MINE.iloc[[4]], query)
    assert answer["reason"].iloc[1] == "InvalidConfiguration"
    assert answer[[f"{name}_mean" for name in QUANTITIES]].iloc[1].isna().all()
    alone = MODEL.predict(MINE.iloc[[4]], query.iloc[[0]])
    assert answer["ps_cpu_mean"].iloc[0] == alone["ps_cpu_mean"].iloc[0]


def test_one_stray_reading_changes_little() -> None:
    seen = MINE.iloc[[0, 3, 6, 9, 12]]
    clean = MODEL.predict(seen, MINE[COLUMNS])["worker_cpu_mean"]
    wrecked = seen.assign(worker_cpu_used=[0.0005, *seen["worker_cpu_used"].iloc[1:]])
    with_stray = MODEL.predict(wrecked, MINE[COLUMNS])["worker_cpu_mean"]
    assert np.median(np.abs(np.log(with_stray / clean))) < 0.25  # the reading itself is off by a factor of thousands


def test_a_failed_run_teaches_nothing() -> None:
    failed = MINE.iloc[[1]].assign(status="failed", ps_memory_used=1.0, ps_cpu_used=1e-5)
    seen = pd.concat([MINE.iloc[[0]], failed])
    pd.testing.assert_frame_equal(MODEL.predict(seen, MINE[COLUMNS]), MODEL.predict(MINE.iloc[[0]], MINE[COLUMNS]))


def test_a_restored_model_answers_bit_for_bit() -> None:
    state = MODEL.state()
    document = json.loads(json.dumps(state.document))
    again = LoadModel.restored(State(document, state.tensors))
    seen = MINE.iloc[[2, 5]]
    pd.testing.assert_frame_equal(
        again.predict(seen, MINE[COLUMNS]), MODEL.predict(seen, MINE[COLUMNS]), check_exact=True
    )


def test_rows_of_the_job_itself_in_the_history_are_ignored() -> None:
    both = LoadModel().fit(pd.concat([HISTORY, MINE.assign(ps_memory_used=1.0)]))
    seen = MINE.iloc[[0]]
    assert both.predict(seen, MINE[COLUMNS])["ps_memory_mean"].tolist() == pytest.approx(
        MODEL.predict(seen, MINE[COLUMNS])["ps_memory_mean"].tolist()
    )


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0])
def test_a_level_is_a_probability(level: float) -> None:
    with pytest.raises(ValueError, match="level is"):
        MODEL.predict(MINE.iloc[[0]], MINE[COLUMNS], level)


@given(y=st.floats(-8.0, 3.0), allotted=st.floats(0.1, 64.0))
def test_what_was_wanted_and_what_was_used_are_inverse_below_the_allotment(y: float, allotted: float) -> None:
    used = used_at("ps_cpu", np.array([y]), np.array([allotted]))
    assert used[0] <= allotted
    if used[0] < 0.99 * allotted:
        assert wanted("ps_cpu", used, np.array([allotted]))[0] == pytest.approx(y, abs=1e-6)


def test_slopes_come_from_the_history() -> None:
    generator = np.random.default_rng(0)
    jobs = []
    for _ in range(30):
        size = generator.uniform(-2, 2, (6, 1))
        jobs.append(Readings(size, generator.normal(20, 1) + 0.9 * size[:, 0] + generator.normal(0, 0.05, 6)))
    line = learn_line(Default((0.0,), 0.3, 0.15), jobs)
    assert line.mean[1] == pytest.approx(0.9, abs=0.08)
    assert line.mean[0] == pytest.approx(20, abs=0.6)
    assert line.error < 0.1
