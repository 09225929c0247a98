"""Plans beside what came of them: prices, and a sentence a plan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from convoy.brain.plan.feedback import in_words, priced
from convoy.brain.plan.prices import Prices

GIB = 2.0**30
PRICES = Prices(per_core=0.1, per_gib=0.01, currency="EUR")


def outcomes(**changes: Any) -> pd.DataFrame:
    row = {
        "plan": "digits-scaleplan-2", "carried_out_at": pd.Timestamp("2026-03-01", tz="UTC"), "workers_after": 2.0,
        "predicted": 200.0, "predicted_lower": 180.0, "predicted_upper": 230.0, "realized": 220.0,
        "price_per_hour": 0.42, "worker_cpu": 2.0, "worker_memory": 1.0 * GIB, "worker_cpu_used": 1.5,
        "worker_memory_used": 0.5 * GIB, "worker_cpu_upper": 1.75, "worker_memory_upper": math.nan,
        "restart_seconds": 12.0, "rolled_back": False,
    }  # fmt: skip
    return pd.DataFrame([row | changes])


def said(**changes: Any) -> str:
    return in_words(priced(outcomes(**changes), PRICES), "EUR")[0].sentence


def test_a_plan_costs_what_its_pods_were_allotted() -> None:
    row = priced(outcomes(), PRICES).iloc[0]
    assert row["realized_per_hour"] == pytest.approx(2 * (2 * 0.1 + 0.01))
    assert row["realized_per_million"] == pytest.approx(0.42 / 3600 / 220 * 1e6)
    assert row["predicted_per_million"] == pytest.approx(0.42 / 3600 / 200 * 1e6)


@pytest.mark.parametrize(
    "unknown", [{"worker_cpu": math.nan}, {"worker_memory": math.nan}, {"workers_after": math.nan}]
)
def test_what_isnt_known_isnt_free(unknown: dict[str, float]) -> None:
    row = priced(outcomes(**unknown), PRICES).iloc[0]
    assert np.isnan(row["realized_per_hour"])
    assert np.isnan(row["realized_per_million"])


def test_without_prices_costs_are_unknown() -> None:
    assert np.isnan(priced(outcomes(), Prices()).iloc[0]["realized_per_million"])


def test_a_sentence_says_speed_load_cost_and_restart() -> None:
    assert said() == (
        "realized 220 samples/s, +10% against the predicted one (within 180 to 230); 1.5 cores a worker of at most "
        "1.75 predicted; 0.5 GiB a worker; 0.53 EUR a million samples, 0.583 predicted; restart of 12 s"
    )


def test_what_was_taken_back_says_so() -> None:
    text = said(realized=120.0, rolled_back=True)
    assert "-40% against the predicted one (below 180 to 230)" in text
    assert text.endswith("taken back: it made things worse")
    assert "(above 180 to 230)" in said(realized=300.0)


def test_plans_of_people_and_plans_that_run_yet() -> None:
    nothing = dict.fromkeys(("predicted", "predicted_lower", "predicted_upper", "price_per_hour"), math.nan)
    assert said(**nothing).startswith("realized 220 samples/s, nothing was predicted; ")
    assert said(realized=math.nan) == "not measured yet"
    assert said(realized=math.nan, carried_out_at=pd.NaT) == "not carried out"
