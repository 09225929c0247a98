import math

import pandas as pd
import pytest

from convoy.brain.features import frames
from support.stored import Stored, at


@pytest.fixture
def stored(engine):
    return Stored(engine)


def test_a_plan_stands_beside_what_came_of_it(engine, stored):
    job = stored.job(user="ada", cluster="east")
    stored.recommendation(job, "r-1")
    known = {"predicted": 200.0, "predicted_lower": 180.0, "predicted_upper": 230.0}
    stored.plan(job, "inside", **known, realized=220.0, realized_seconds=60.0, recommendation_id="r-1")
    stored.plan(job, "below", **known, realized=150.0, rolled_back=True, created_at=at(10), restart_seconds=12.5)
    stored.plan(job, "on the edge", **known, realized=180.0, created_at=at(20), carried_out_at=at(25))
    stored.plan(job, "not yet", **known, created_at=at(30))
    stored.plan(job, "by hand", realized=100.0, created_at=at(40), workers_before=4, workers_after=3)
    frame = frames.plan_outcomes(engine)
    assert frame["plan"].tolist() == ["inside", "below", "on the edge", "not yet", "by hand"]
    assert frame["error"].tolist()[:3] == pytest.approx([0.1, -0.25, -0.1])
    assert frame["error"][3:].isna().all()
    assert frame["within"].tolist() == [True, False, True, pd.NA, pd.NA]
    assert frame["rolled_back"].tolist() == [False, True, False, False, False]
    assert frame["recommendation"].tolist() == ["r-1", None, None, None, None]
    assert frame["restart_seconds"][1] == 12.5
    assert math.isnan(frame["restart_seconds"][0])
    assert frame["carried_out_at"][2] == pd.Timestamp(at(25))
    assert (frame["workers_before"][4], frame["workers_after"][4]) == (4.0, 3.0)
    assert set(frame["user"]) == {"ada"}


def test_of_one_job_or_of_a_span_of_time(engine, stored):
    for number, uid in enumerate(("uid-1", "uid-2")):
        stored.plan(stored.job(uid), created_at=at(number))
    assert frames.plan_outcomes(engine, "uid-2")["job"].tolist() == ["uid-2"]
    assert frames.plan_outcomes(engine, since=at(1))["job"].tolist() == ["uid-2"]
    assert frames.plan_outcomes(engine, until=at(1))["job"].tolist() == ["uid-1"]
    assert frames.plan_outcomes(engine, "uid-1", since=at(1)).empty
