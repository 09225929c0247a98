"""``convoy brain batch``, ``advice``, ``accept`` and ``refuse`` as people run them."""

from __future__ import annotations

import json
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from convoy.brain.store import advice as decisions
from convoy.brain.store import runs
from convoy.brain.store.advice import Status
from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.migrate import migrate
from convoy.core.cluster.port import Kind
from support.batches import cluster_with_jobs
from support.command import convoy, start
from support.stored import Stored

NOW = datetime.now(UTC)


@pytest.fixture
def url(home: Path) -> str:
    """Return the URL of a store with nothing to learn from."""
    url = f"sqlite:///{home / 'brain.db'}"
    migrate(url)
    return url


def propose(url: str, uid: str, identifier: str) -> None:
    """Store a job and a recommendation of a run that waits for somebody."""
    engine = open_engine(url)
    stored = Stored(engine)
    job = stored.job(uid, name="first", optimize_mode="cluster", last_seen=NOW)
    with engine.begin() as connection:
        run = runs.take(
            connection, window=(NOW - timedelta(hours=1), NOW), mode="advise", engine="local", owner="me", now=NOW,
            deadline_at=NOW,
        )  # fmt: skip
    stored.recommendation(
        job, identifier, run_id=run.id, status="proposed", workers=4, predicted=400.0, made_at=NOW, ps=0,
        message="from 1 worker to 4",
    )  # fmt: skip
    engine.dispose()


@pytest.mark.timeout(120)
def test_a_run_is_done_once_and_says_where_its_report_is(url, home, state_dir):
    first = convoy("brain", "batch", "--database-url", url, timeout=100.0)
    assert first.status == 0, first.err
    assert ": done: 0 models fitted; 0 jobs looked at, 0 changes recommended" in first.out
    report = Path(first.out.split("report: ")[1].strip())
    assert report.parent == state_dir / "reports"
    assert report.read_text().startswith("# Batch for ")
    assert [line.split()[1] for line in first.err.splitlines()] == [
        "rollup", "features", "fit", "promote", "feedback", "plan", "apply",
    ]  # fmt: skip
    again = convoy("brain", "batch", "--database-url", url, "--json")
    assert again.status == 0
    told = json.loads(again.out)
    assert (told["ending"], told["run"]["state"], told["run"]["starts"]) == ("already done", "done", 1)
    assert told["report"] == str(report)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--window", "soon"), "--window 'soon': expected a duration"),
        (("--every", "0s"), "expected more than nothing"),
        (("--every", "1h", "--window", "2h"), "--window 2h: expected none beside --every 1h"),
        (("--deadline", "-1h"), "--deadline '-1h'"),
        (("--engine", "spark://x"), "expected local, or dask://HOST:PORT"),
        (("--window", "400d"), "from 1 s to 366 days"),
    ],
)
def test_what_cant_be_is_refused(url, state_dir, arguments, why):
    ended = convoy("brain", "batch", "--database-url", url, *arguments)
    assert (ended.status, why in ended.err) == (2, True), ended.err


def test_a_store_that_isnt_there_is_refused(home, state_dir):
    ended = convoy("brain", "batch", "--database-url", f"sqlite:///{home / 'none.db'}")
    assert (ended.status, "there is no such file" in ended.err) == (2, True)


@pytest.mark.timeout(120)
def test_every_window_has_a_run_until_it_is_told_to_stop(url, state_dir):
    process = start("brain", "batch", "--database-url", url, "--every", "2s", "--json")
    try:
        endings = []
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith('{"window"'):
                endings.append(json.loads(line))
            if len(endings) == 2:
                break
        begun = time.monotonic()
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=60)[0]
        assert process.returncode == 0, rest
        assert time.monotonic() - begun < 20.0
    finally:
        process.kill()
        process.wait()
    assert [one["ending"] for one in endings] == ["done", "done"]
    assert endings[0]["window"][1] <= endings[1]["window"][0]


def test_advice_is_listed_accepted_once_and_becomes_a_plan_on_this_machine(url, state_dir):
    with cluster_with_jobs(state_dir) as (cluster, uids):
        propose(url, uids["first"], "1234abcd-advice")
        listed = convoy("brain", "advice", "--database-url", url)
        assert listed.status == 0, listed.err
        assert "1234abcd  default/first" in listed.out
        assert "1 to 4" in listed.out
        accepted = convoy("brain", "accept", "1234", "--by", "ana", "--why", "in a hurry", "--database-url", url)
        assert accepted.status == 0, accepted.err
        assert "accepted by ana; ScalePlan default/first-advice-1234abcd asks for 4 workers" in accepted.out
        [plan] = cluster.list(Kind.SCALE_PLAN, "default").items
        assert plan["spec"]["replicaResourceSpecs"]["worker"]["replicas"] == 4
    assert "nothing to decide" in convoy("brain", "advice", "--database-url", url).out
    [told] = json.loads(convoy("brain", "advice", "--all", "--json", "--database-url", url).out)
    assert (told["status"], told["decided_by"], told["decided_why"]) == ("accepted", "ana", "in a hurry")
    refused = convoy("brain", "refuse", "1234", "--database-url", url)
    assert (refused.status, "ana accepted it" in refused.err) == (2, True)


def test_advice_is_refused_with_who_and_why(url, state_dir):
    propose(url, "uid-1", "1234abcd-advice")
    refused = convoy("brain", "refuse", "1234abcd", "--by", "ben", "--why", "too dear", "--database-url", url)
    assert refused.status == 0, refused.err
    assert "refused by ben; that size isn't recommended to the job again for 24 h" in refused.out
    engine = open_engine(url)
    with reading(engine) as connection:
        [refusal] = decisions.refusals(connection, ["uid-1"], NOW - timedelta(hours=1))["uid-1"]
    assert (refusal.workers, refusal.by, refusal.why) == (4, "ben", "too dear")
    assert decisions.find(engine, "1234").status is Status.REFUSED
    engine.dispose()


def test_what_isnt_there_cant_be_accepted(url, state_dir):
    ended = convoy("brain", "accept", "feed", "--database-url", url)
    assert (ended.status, "no recommendation 'feed'" in ended.err) == (1, True)
