"""The plan for all jobs in a run of the batch: quotas of a file, who is left alone, what the report says of each."""

from __future__ import annotations

import math
from datetime import timedelta

import pytest
import sqlalchemy as sa

from convoy.brain.batch.joint import Part, agreed
from convoy.brain.batch.pipeline import Ending
from convoy.brain.batch.summary import page
from convoy.brain.plan import Decision, JobRecommendation, Option
from convoy.brain.plan.cluster import Alternative, ClusterDecision, JobAnswer
from convoy.brain.plan.cluster.valued import Currency
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import Recommendation
from support.batches import NOW, fill, proposed, run, small_model, surroundings
from support.stored import GIB, Stored


@pytest.fixture(autouse=True)
def _small_model(monkeypatch):
    small_model(monkeypatch)


@pytest.fixture
def live(engine, home):
    """Store jobs and machines for all they may want."""
    fill(engine, home)
    for name in ("one", "two", "three"):
        Stored(engine).machine(name, "default", cpu_allocatable=8.0, memory_allocatable=64 * GIB, ready=True)
    return engine


def asked(engine, name, **more):
    """Have a job's master ask something more."""
    with writing(engine) as connection:
        this = Recommendation.id == f"asked-{name}"
        request = connection.execute(sa.select(Recommendation.request).where(this)).scalar_one()
        connection.execute(sa.update(Recommendation).where(this).values(request={**request, **more}))


def by_name(engine, outcome):
    told = {one["uid"]: one for one in outcome.run.report["plan"]["changes"]}
    told |= {one["uid"]: one for one in outcome.run.report["plan"]["kept_jobs"]}
    return {one["job"]: one for one in told.values()}


def test_who_is_pinned_frozen_or_refused_is_left_out_and_each_job_is_in_the_report(live, home):
    asked(live, "first", pinned=True)
    asked(live, "second", frozen_until=NOW.timestamp() + 7200.0)
    stored = Stored(live)
    number = next(iter(connection_rows(live, "by-hand")))
    refused = {
        "status": "refused",
        "decided_by": "ana",
        "decided_at": NOW - timedelta(hours=1),
        "decided_why": "dear",
    }
    stored.recommendation(number, "no", workers=8, made_at=NOW - timedelta(hours=2), **refused)
    outcome = run(surroundings(live, home))
    assert outcome.ending is Ending.DONE, outcome.message
    found = by_name(live, outcome)
    assert (found["first"]["reason"], found["second"]["reason"]) == ("Pinned", "Frozen")
    assert found["by-hand"]["workers"] == 7
    assert "left out: 8 workers (ana refused that on" in found["by-hand"]["message"]
    assert outcome.run.report["plan"]["together"]["valued_by"] == {"throughput (NotReported)": 3}
    report = page(outcome.run)
    for part in (
        "[Pinned] keeps 1 worker at",
        "[Frozen] keeps 1 worker at",
        "Valued by: throughput (NotReported) 3.",
    ):
        assert part in report, report


def connection_rows(engine, name):
    with engine.connect() as connection:
        query = sa.select(Recommendation.job_id).where(Recommendation.id == f"asked-{name}")
        return list(connection.execute(query).scalars())


def test_quotas_of_the_file_hold_in_a_run(live, home):
    file = home / "capacity.toml"
    file.write_text('[[quotas]]\nnamespace = "default"\ncpu = 7\n\n[[quotas]]\nuser = "x"\ncpu = 1\npool = "none"\n')
    outcome = run(surroundings(live, home, capacity_file=file))
    advised = proposed(live).values()
    assert sum(one["workers"] for one in advised) == 7
    together = outcome.run.report["plan"]["together"]
    scarce = next(one for one in together["prices"] if one["namespace"] == "default")
    assert (scarce["resource"], scarce["available"]) == ("cpu", 7.0)
    assert scarce["used"] == pytest.approx(7.0)
    assert "bounds nothing" in together["notes"][0]
    report = page(outcome.run)
    for part in ("| cpu | all pools | default | 7 | 7 |", "Note: the quota of x in pool none bounds nothing"):
        assert part in report, report
    for one in advised:
        weighed = [option["verdict"] for option in one["options"]]
        assert any("for all jobs together: worth" in verdict for verdict in weighed), weighed


def test_with_a_file_that_cannot_be_right_nobody_is_planned_for_until_it_is(live, home):
    file = home / "capacity.toml"
    file.write_text("quota = 3\n")
    outcome = run(surroundings(live, home, capacity_file=file))
    assert outcome.ending is Ending.FAILED
    assert "stage plan failed" in outcome.message
    assert "nothing is made of quota" in outcome.message
    assert proposed(live) == {}
    file.write_text('[[quotas]]\nnamespace = "default"\ncpu = 7\n')
    again = run(surroundings(live, home, capacity_file=file))
    assert again.ending is Ending.DONE, again.message
    assert sum(one["workers"] for one in proposed(live).values()) == 7


NAN = float("nan")


def part(decision, workers, *, reason="Grows", batch=0, speed=1800.0, goodput=1500.0, currency="goodput"):
    other = Alternative(0, "p4", 1, 0, 1.0, 950.0, 2.7, 1.2, 0.9, False, "NoFaster", "worth 1.2 against 2.1", 950.0)
    message = f"{workers} workers for all"
    answer = JobAnswer(
        "uid", "ada", decision, reason, message, 1, "p4", workers, 0, goodput, 5.4, speed=speed, batch=batch
    )
    return Part(answer, (other,), Currency(currency, "" if currency == "goodput" else "NotReported"))


def option(workers, verdict, batch=0):
    return Option(
        workers, 900.0 * workers, NAN, NAN, NAN, NAN, 0.1, NAN, NAN, "Observed", verdict=verdict, batch=batch
    )


def alone(workers, *options):
    return JobRecommendation(Decision.CHANGE, "MoreSpeed", "faster", workers, options=options)


def test_a_size_that_was_chosen_by_goodput_is_predicted_by_its_speed_with_the_goodput_beside_it():
    found = agreed(alone(8, option(1, "present size"), option(8, "chosen")), part(ClusterDecision.CHANGE, 2), 1, 0)
    assert (found.decision, found.target_workers, found.predicted, found.goodput) == (
        Decision.CHANGE,
        2,
        1800.0,
        1500.0,
    )
    assert "alone it would get 8 workers [MoreSpeed]" in found.message
    verdicts = [one.verdict for one in found.options]
    assert verdicts[0] == "present size; for all jobs together: worth 1.2 against 2.1 [NoFaster]"
    assert verdicts[1] == "best for this job alone"
    by_speed = agreed(alone(8), part(ClusterDecision.CHANGE, 2, currency="throughput"), 1, 0)
    assert math.isnan(by_speed.goodput)


def test_the_batch_that_was_chosen_for_all_is_the_answers():
    found = agreed(alone(8), part(ClusterDecision.CHANGE, 1, batch=1024), 1, 0)
    assert (found.decision, found.target_workers, found.target_batch) == (Decision.CHANGE, 1, 1024)


def test_what_both_say_stands_with_what_it_is_worth_for_all():
    found = agreed(alone(2, option(2, "chosen")), part(ClusterDecision.CHANGE, 2), 1, 0)
    assert (found.reason, found.message) == ("MoreSpeed", "faster; for all jobs together: 2 workers for all")
    kept = agreed(alone(2), part(ClusterDecision.KEEP, 1, reason="Pinned"), 1, 0)
    assert (kept.decision, kept.reason, kept.target_workers) == (Decision.KEEP, "Pinned", 1)
