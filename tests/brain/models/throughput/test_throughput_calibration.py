from __future__ import annotations

import zlib
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from convoy.brain.models import ThroughputModel
from support.simulated_jobs import simulated_history


@cache
def learned() -> ThroughputModel:
    return ThroughputModel().fit(simulated_history(25, seed=11))


def one_question_a_job(model: ThroughputModel, jobs: pd.DataFrame, k: int) -> pd.DataFrame:
    """Observe ``k`` random rows of each job and ask for one other: hits are independent, as the binomial needs."""
    answers = []
    for name, rows in jobs.groupby("job"):
        order = np.random.default_rng([k, zlib.crc32(str(name).encode())]).permutation(len(rows))
        asked = rows.iloc[order[k : k + 1]]
        answer = model.predict(rows.iloc[order[:k]], asked.drop(columns="throughput"))
        answers.append(answer.assign(truth=asked["throughput"]))
    return pd.concat(answers)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_intervals_of_simulated_jobs_hold_as_often_as_they_say(k: int) -> None:
    answers = one_question_a_job(learned(), simulated_history(150, seed=12, prefix="new"), k)
    held = int(((answers["lower"] <= answers["truth"]) & (answers["truth"] <= answers["upper"])).sum())
    low, high = binom.interval(0.995, len(answers), 0.9)
    assert low <= held, f"{held} of {len(answers)} intervals held at k={k}: fewer than {low:g}"
    assert held <= high + 6, f"{held} of {len(answers)} intervals held at k={k}: too wide"


def test_history_makes_intervals_narrower_and_predictions_no_worse() -> None:
    jobs = simulated_history(60, seed=13, prefix="new")
    with_history = one_question_a_job(learned(), jobs, 1)
    without = one_question_a_job(ThroughputModel().fit(pd.DataFrame()), jobs, 1)
    width = [float((a["upper"] / a["lower"]).median()) for a in (with_history, without)]
    error = [float((np.log(a["mean"] / a["truth"])).abs().median()) for a in (with_history, without)]
    assert width[0] < 0.5 * width[1]
    assert error[0] < error[1]


def test_the_history_of_the_same_template_counts_most() -> None:
    history = pd.concat(
        [
            simulated_history(6, seed=21, prefix="fast").assign(template="fast"),
            simulated_history(6, seed=22, prefix="slow").assign(template="slow"),
        ]
    )
    slow = history["template"] == "slow"
    # a template whose jobs gain nothing from a second worker: each costs another second to synchronize with
    rows = history[slow]
    seconds = rows["workers"] * rows["batch_size"] / rows["throughput"] + (rows["workers"] - 1.0) * 0.5
    history.loc[slow, "throughput"] = rows["workers"] * rows["batch_size"] / seconds
    model = ThroughputModel().fit(history)
    observed = pd.DataFrame({"job": "mine", "workers": [1], "nodes": 1, "batch_size": 16.0, "throughput": [100.0]})
    query = observed.assign(workers=4)[["job", "workers", "nodes", "batch_size"]]
    speed = {
        template: model.predict(observed.assign(template=template), query.assign(template=template))["mean"].iloc[0]
        for template in ("fast", "slow")
    }
    assert speed["fast"] > 1.5 * speed["slow"]
