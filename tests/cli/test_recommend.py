"""``convoy brain recommend JOB`` on a store that holds a job with parameter servers."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pandas as pd
import pytest

from convoy.brain.ingest.reports import Ingest
from convoy.brain.store.engine import open_engine
from convoy.brain.store.migrate import migrate
from convoy.cli.recommend import SHOWN
from convoy.core.api.envelope import Envelope
from convoy.core.process.clock import SystemClock
from support.command import Ended, convoy
from support.known_speeds import served
from support.reports import job, report, window


@pytest.fixture
def url(home: Path) -> str:
    url = f"sqlite:///{home / 'store.db'}"
    migrate(url)
    engine = open_engine(url)
    described = job(uid="uid-2", name="ranking")
    described.strategy, described.mode = "ps", "sync"
    for round, (workers, ps) in enumerate([(2, 1), (8, 4), (4, 2)], 1):
        start = time.time() - 1000 + 100 * round
        speed = served(pd.Series({"workers": workers, "ps": ps}))
        windows = [
            window(
                100 * round + n, rate=speed, workers=workers, round=round, warming=n == 0, start=start - 100 * round
            )
            for n in range(8)
        ]
        for sample in windows:
            sample.ps, sample.batch_size = ps, 32
        envelope = Envelope(job="uid-2", sender="master-0", incarnation=1, sequence=round)
        Ingest(engine, SystemClock()).store(envelope, report(*windows, of=described))
    engine.dispose()
    return url


def recommend(url: str, *arguments: str) -> Ended:
    ended = convoy("brain", "recommend", "ranking", "--database-url", url, *arguments)
    assert ended.status == 0, ended.err
    return ended


def test_both_numbers_their_prices_and_each_roles_needs_are_shown(url: str) -> None:
    shown = recommend(url, "--max-workers", "8", "--max-ps", "4").out
    for words in ("default/ranking", "SERVERS", "VERDICT", "USD/H", "ROLE", "worker", "ps", "for throughput, from 3"):
        assert words in shown
    assert "and 8 more sizes: --json shows all" in shown
    assert shown.count("present size") <= 2


def test_json_has_every_size_with_its_verdict(url: str) -> None:
    document = json.loads(recommend(url, "--max-workers", "8", "--max-ps", "4", "--json").out)
    assert (document["job"], document["namespace"], document["objective"]) == ("ranking", "default", "throughput")
    assert len(document["options"]) == 32 > SHOWN
    assert all(option["verdict"] for option in document["options"])
    assert {role["role"] for role in document["roles"]} == {"worker", "ps"}
    assert document["decision"] in ("KEEP", "CHANGE", "EXPLORE")


def test_another_objective_is_asked_for(url: str) -> None:
    cheap = json.loads(recommend(url, "--max-workers", "8", "--max-ps", "4", "--objective", "cost", "--json").out)
    assert cheap["objective"] == "cost"
    chosen = [option for option in cheap["options"] if option["verdict"].startswith("chosen")]
    assert len(chosen) == 1


def test_a_deadline_is_asked_for_by_its_moment_and_what_is_left(url: str) -> None:
    given = ("--objective", "deadline", "--deadline", "2020-01-01T00:00:00", "--remaining-samples", "1e6")
    document = json.loads(recommend(url, *given, "--json").out)
    assert document["reason"] in ("DeadlinePassed", "DeadlineAtRisk", "Uncertain", "NoHistoryYet")
    assert {option["in_time"] for option in document["options"]} == {0.0}


def test_how_many_processes_load_the_data_stands_in_a_line(url: str) -> None:
    engine = open_engine(url)
    start = time.time() - 200
    windows = [window(n, workers=4, round=9, start=start, loading=(0.75, 1)) for n in range(60)]
    described = job(uid="uid-3", name="waiting")
    Ingest(engine, SystemClock()).store(
        Envelope(job="uid-3", sender="master-0", incarnation=1, sequence=1), report(*windows, of=described)
    )
    engine.dispose()
    ended = convoy("brain", "recommend", "waiting", "--database-url", url)
    assert ended.status == 0, ended.err
    said = " ".join(ended.out.split())
    assert "loaders 1: a step of 1 s waits 0.75 s (75%) for its data: 4 might hide that" in said
    assert "[CoresInUse]" in said
