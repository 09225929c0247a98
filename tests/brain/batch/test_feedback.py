"""What came of plans goes into the figures of the version that predicted it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from convoy.brain.batch import feedback
from convoy.brain.models.registry import ModelFile
from convoy.brain.settings import BrainSettings
from convoy.brain.store.model_files import Registry
from support.model_files import AT, FACTS, Line, contest
from support.stored import Stored, at

PRICES = {"price_cpu_hour": 0.1, "price_gib_hour": 0.01}


@pytest.fixture
def registry(engine, tmp_path):
    return Registry(engine, tmp_path)


def registered(registry, slope):
    facts = replace(FACTS, created_at=AT + timedelta(hours=slope), contest=contest(0.2 / slope))
    return registry.register(ModelFile(facts, Line(slope).state()))


def carried_out(stored, version, jobs, realized, first=0):
    """Plans that promised 100 samples/s (90 to 110)."""
    for number in range(first, first + jobs):
        job = stored.job(f"uid-{number}")
        origin = {"from": "champion", "version": version.number, "digest": version.digest}
        stored.recommendation(job, f"r-{number}", evidence={"model": origin})
        stored.plan(
            job,
            "plan",
            recommendation_id=f"r-{number}",
            predicted=100.0,
            predicted_lower=90.0,
            predicted_upper=110.0,
            realized=realized,
            realized_seconds=60.0,
            carried_out_at=at(10),
        )


def test_each_version_answers_for_its_own_plans(engine, registry, home):
    stored, settings = Stored(engine), BrainSettings(**PRICES)
    former, champion = registered(registry, 1), registered(registry, 2)
    for version in (former, champion):
        registry.consider(version, AT)
    carried_out(stored, former, 6, 80.0)
    carried_out(stored, champion, 2, 100.0, first=6)
    stored.plan(stored.job("uid-by-hand"), predicted=100.0, realized=1.0, carried_out_at=at(10))
    written = feedback.refresh(engine, registry, settings, AT)
    assert {version.number: error.plans for version, error in written} == {1: 6, 2: 2}
    told = {version.number: version.feedback for version in registry.versions("throughput")}
    assert told[1]["median_error"]["estimate"] == pytest.approx(0.2)
    assert told[1]["coverage"]["estimate"] == 0.0
    assert told[1]["at"] == AT.isoformat()
    assert (told[2]["reason"], told[2]["bias"]) == ("TooFewJobs", None)
    assert registry.champion("throughput").decision["verdict"] == "promote", "other figures are left as they are"


def test_doing_it_again_comes_to_the_same(engine, registry, home):
    version = registered(registry, 1)
    registry.consider(version, AT)
    carried_out(Stored(engine), version, 5, 95.0)
    feedback.refresh(engine, registry, BrainSettings(), AT)
    first = registry.champion("throughput").feedback
    feedback.refresh(engine, registry, BrainSettings(), AT)
    assert registry.champion("throughput").feedback == first
    assert first["coverage"]["estimate"] == 1.0


def test_a_champion_without_plans_says_so_and_without_models_there_is_nothing(engine, registry, home):
    assert feedback.refresh(engine, registry, BrainSettings(), AT) == []
    registry.consider(registered(registry, 1), AT)
    feedback.refresh(engine, registry, BrainSettings(), AT)
    assert registry.champion("throughput").feedback["reason"] == "NoPlans"
