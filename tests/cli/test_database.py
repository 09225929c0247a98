"""The Brain's database under `submit --local` and `operator`: refused before anything starts, never swapped."""

from __future__ import annotations

import os
import socket
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from convoy.brain.store.migrate import migrate
from convoy.cli import database, local
from convoy.core.api.errors import UnknownSchema, Unusable
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.cluster.port import Kind
from convoy.core.process.lock import ProcessLock
from convoy.sql.config import VERSION_TABLE
from support.command import Ended, convoy
from support.manifests import job, write

DEAD = "mysql://convoy:hidden@127.0.0.1:1/convoy"


@pytest.fixture
def cluster(state_dir: Path) -> Iterator[LocalCluster]:
    with closing(open_cluster(state_dir)) as opened:
        yield opened


def refused(ended: Ended, *words: str) -> None:
    assert ended.status == 2, ended
    assert ended.seconds < 10.0, f"took {ended.seconds:.2f} s, {ended.cpu:.2f} s of them processor time"
    assert ended.err.startswith("convoy: ")
    assert len(ended.err.splitlines()) == 1
    assert "hidden" not in ended.err + ended.out
    for word in words:
        assert word in ended.err


@pytest.mark.parametrize("command", ["submit", "operator"])
@pytest.mark.parametrize(
    ("url", "words"),
    [
        (DEAD, ["127.0.0.1:1", "CONVOY_DATABASE_URL"]),
        ("sqlite:////nowhere/brain.db", ["/nowhere"]),
        ("oracle://u:hidden@x/y", ["oracle"]),
        ("nonsense", ["database_url"]),
    ],
)
def test_a_database_that_cant_be_used(
    tmp_path: Path, cluster: LocalCluster, state_dir: Path, command: str, url: str, words: list[str]
) -> None:
    arguments = ["submit", str(write(tmp_path, job())), "--local"] if command == "submit" else ["operator"]
    refused(convoy(*arguments, env={**os.environ, "CONVOY_DATABASE_URL": url}), *words)
    assert cluster.list(Kind.ELASTIC_JOB).items == []
    assert cluster.list(Kind.POD).items == []
    assert cluster.list(Kind.SECRET).items == []
    assert ProcessLock(state_dir / "operator.lock").holder() is None


def test_a_database_of_somebody_elses(tmp_path: Path, home: Path) -> None:
    with closing(sqlite3.connect(home / "theirs.db")) as theirs:
        theirs.execute("CREATE TABLE job (id INTEGER)")
    env = {**os.environ, "CONVOY_DATABASE_URL": f"sqlite:///{home}/theirs.db"}
    refused(convoy("submit", write(tmp_path, job()), "--local", env=env), "theirs.db", "'job'", "of Convoy's own")


def test_a_database_of_a_newer_version(cluster: LocalCluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{home}/newer.db"
    migrate(url)
    with closing(sqlite3.connect(home / "newer.db")) as newer, newer:
        newer.execute(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    monkeypatch.setenv(database.VARIABLE, url)
    with pytest.raises(UnknownSchema, match="upgrade Convoy") as caught:
        database.settle(cluster)
    assert caught.value.exit_status == 2
    assert database.stored(cluster) is None


def test_a_server_that_says_nothing(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"mysql://convoy:hidden@127.0.0.1:{silent.getsockname()[1]}/convoy"
        ended = convoy("submit", write(tmp_path, job()), "--local", env={**os.environ, "CONVOY_DATABASE_URL": url})
    refused(ended, "no answer", "CONVOY_DATABASE_URL")


def test_the_one_that_was_chosen_is_kept_and_read(
    cluster: LocalCluster, home: Path, state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = f"sqlite:///{home}/one.db", f"sqlite:///{home}/two.db"
    monkeypatch.setenv(database.VARIABLE, first)
    assert database.settle(cluster) == ""
    local.ensure_brain(cluster)
    monkeypatch.delenv(database.VARIABLE)
    assert database.settle(cluster) == ""
    assert (database.for_readers(cluster) or "").endswith(f"{home}/one.db")
    assert (cluster.layout.database.stat().st_mode & 0o777) == 0o600

    monkeypatch.setenv(database.VARIABLE, second)
    with pytest.raises(Unusable, match=r"one\.db; unset CONVOY_DATABASE_URL") as caught:
        database.settle(cluster)
    assert "two.db" in str(caught.value)
    assert (database.stored(cluster) or "").endswith("one.db")

    cluster.delete(Kind.POD, "convoy-system", "convoy-brain", grace_seconds=0)
    told = database.settle(cluster)
    assert "two.db from now on; what it learned stays in" in told
    assert (database.stored(cluster) or "").endswith("two.db")


def test_a_brain_with_the_default_isnt_given_another(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    local.ensure_brain(cluster)
    monkeypatch.setenv(database.VARIABLE, DEAD)
    with pytest.raises(Unusable, match=r"its default, brain\.db") as caught:
        database.settle(cluster)
    assert "hidden" not in str(caught.value)
    assert database.stored(cluster) is None


def test_a_kept_one_that_is_dead_is_refused_too(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    file = cluster.layout.root / "gone" / "brain.db"
    file.parent.mkdir()
    monkeypatch.setenv(database.VARIABLE, f"sqlite:///{file}")
    database.settle(cluster)
    file.unlink()
    file.parent.rmdir()
    monkeypatch.delenv(database.VARIABLE)
    begun = time.monotonic()
    with pytest.raises(Unusable, match="gone"):
        database.settle(cluster)
    assert time.monotonic() - begun < 2


def test_recommend_asks_the_kept_one(cluster: LocalCluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{home}/kept.db"
    migrate(url)
    monkeypatch.setenv(database.VARIABLE, url)
    database.settle(cluster)
    monkeypatch.delenv(database.VARIABLE)
    ended = convoy("brain", "recommend", "absent")
    assert ended.status == 1, ended
    assert "absent" in ended.err


def test_the_brains_pod_gets_it_and_no_argument_holds_it(cluster: LocalCluster, home: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv(database.VARIABLE, f"sqlite:///{home}/hidden.db")
    database.settle(cluster)
    local.ensure_brain(cluster)
    pod = cluster.get(Kind.POD, "convoy-system", "convoy-brain")
    assert "hidden" not in str(pod)
    [one] = [env for env in pod["spec"]["containers"][0]["env"] if env["name"] == "CONVOY_DATABASE_URL"]
    assert one["valueFrom"]["secretKeyRef"]["name"] == database.SECRET
