"""A recommendation that a person accepts is carried out by the job's master, and its outcome is put to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from convoy.brain.store import queries, runs
from convoy.brain.store.engine import open_engine, writing
from convoy.core.api.errors import ConvoyError
from convoy.core.cluster.port import Kind
from support.command import convoy
from support.machine import Machine, digits
from support.stored import Stored
from support.waiting import until

ID = "1234abcd-a-recommendation"


@pytest.mark.long
@pytest.mark.timeout(300)
def test_an_accepted_recommendation_is_carried_out_and_measured(here: Machine, tmp_path: Path) -> None:
    job = digits("advised", workers=2)
    job["spec"]["replicaSpecs"]["worker"] |= {"replicas": 1, "minReplicas": 1, "maxReplicas": 2}
    name = here.submit(tmp_path, job)
    here.await_step(name, 10, timeout=100.0)
    engine = open_engine(f"sqlite:///{here.state_dir / 'brain.db'}")

    def known() -> bool:
        try:
            return bool(queries.find_job(engine, here.job(name).metadata.uid).id)
        except ConvoyError:
            return False

    until(known, "the Brain to know the job", timeout=60.0)
    row = queries.find_job(engine, here.job(name).metadata.uid)
    now = datetime.now(UTC)
    with writing(engine) as connection:
        run = runs.take(
            connection, window=(now - timedelta(hours=1), now), mode="advise", engine="local", owner="test", now=now,
            deadline_at=now,
        )  # fmt: skip
    Stored(engine).recommendation(
        row.id, ID, run_id=run.id, status="proposed", workers=2, ps=0, predicted=1e-3, lower90=1e-4, upper90=1e-2,
        made_at=now,
    )  # fmt: skip
    accepted = convoy("brain", "accept", "1234", "--by", "ana")
    assert accepted.status == 0, accepted
    assert "ScalePlan default/advised-advice-1234abcd asks for 2 workers" in accepted.out
    here.await_world(name, 2, timeout=100.0)
    asked = here.cluster.get(Kind.SCALE_PLAN, "default", "advised-advice-1234abcd")
    assert asked["status"]["phase"] == "Succeeded", asked["status"]
    exact = [
        plan
        for plan in here.cluster.list(Kind.SCALE_PLAN, "default").items
        if plan["spec"].get("createPods") and plan["spec"]["explanation"].get("recommendation") == ID
    ]
    assert len(exact) == 1
    assert exact[0]["spec"]["epoch"] >= 1

    def outcome() -> bool:
        return any(plan.recommendation_id == ID and plan.realized for plan in queries.plans(engine, row))

    until(outcome, "the plan's realized speed", timeout=100.0)
    assert here.job(name).status.phase == "Running"
    here.finish(name, timeout=60.0)
    engine.dispose()
