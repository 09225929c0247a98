"""How right a model was in use: errors over plans that were carried out, with intervals over jobs."""

from __future__ import annotations

import json
import math

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models.registry.feedback import MIN_JOBS, model_error


def plans(jobs: int, each: int = 3, bias: float = 0.0, sd: float = 0.1, seed: int = 0) -> pd.DataFrame:
    """Return plans whose interval is right for ``sd``, with an error of the job's own."""
    generator = np.random.default_rng(seed)
    own = np.repeat(generator.normal(0.0, 0.6 * sd, jobs), each)
    errors = bias + own + generator.normal(0.0, 0.8 * sd, jobs * each)
    predicted = generator.uniform(50, 500, jobs * each)
    realized = predicted * np.exp(errors)
    half = np.exp(1.645 * sd)
    return pd.DataFrame(
        {
            "job": np.repeat([f"job-{number}" for number in range(jobs)], each),
            "predicted": predicted,
            "realized": realized,
            "within": pd.array((realized >= predicted / half) & (realized <= predicted * half), dtype="boolean"),
            "rolled_back": pd.array([False] * (jobs * each), dtype="boolean"),
            "worker_cpu_upper": 2.0,
            "worker_cpu_used": np.where(np.arange(jobs * each) % 10 == 0, 2.1, 1.9),
            "predicted_per_million": 1.0,
            "realized_per_million": predicted / realized,
        }
    )


def test_a_right_model_is_found_right() -> None:
    found = model_error(plans(40))
    assert (found.plans, found.jobs, found.reason) == (120, 40, "")
    assert found.bias is not None
    assert found.coverage is not None
    assert found.load_below is not None
    assert found.bias.lower <= 0.0 <= found.bias.upper
    assert found.coverage.lower <= 0.9 <= found.coverage.upper
    assert found.load_below.estimate == pytest.approx(0.9)


def test_a_model_that_promises_too_much_is_found_out() -> None:
    found = model_error(plans(40, bias=-0.2))
    assert found.bias is not None
    assert found.coverage is not None
    assert found.bias.upper < -0.1
    assert found.coverage.upper < 0.9
    assert found.median_error is not None
    assert found.cost_error is not None
    assert found.median_error.estimate == pytest.approx(0.18, abs=0.04)
    assert found.cost_error.estimate == pytest.approx(0.22, abs=0.05)


def test_intervals_are_over_jobs_not_over_plans() -> None:
    """Twenty plans of one job share its error: as plans of jobs of their own they would seem to tell more."""
    rows = plans(12, each=20)
    shared, apart = model_error(rows), model_error(rows.assign(job=[f"job-{place}" for place in rows.index]))
    assert shared.bias is not None
    assert apart.bias is not None
    assert shared.bias.estimate == apart.bias.estimate
    assert shared.bias.upper - shared.bias.lower > 1.5 * (apart.bias.upper - apart.bias.lower)


def test_of_too_few_jobs_nothing_is_said() -> None:
    found = model_error(plans(MIN_JOBS - 1))
    assert (found.plans, found.jobs, found.reason) == (3 * (MIN_JOBS - 1), MIN_JOBS - 1, "TooFewJobs")
    assert found.bias is found.median_error is found.coverage is None
    nothing = model_error(plans(3).iloc[:0])
    assert (nothing.plans, nothing.reason) == (0, "NoPlans")


def test_plans_that_werent_measured_or_predicted_dont_count() -> None:
    rows = plans(10, each=1)
    rows.loc[0, "realized"] = math.nan
    rows.loc[1, "predicted"] = math.nan
    rows.loc[2, "within"] = pd.NA
    rows.loc[3, "rolled_back"] = True
    found = model_error(rows)
    assert (found.plans, found.jobs, found.taken_back) == (8, 8, 1)


def test_it_is_plain_json() -> None:
    assert json.loads(json.dumps(model_error(plans(10)).document()))["jobs"] == 10
