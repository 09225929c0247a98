"""The file of the local cluster: privacy, schema, bounded log, and many processes at once."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from convoy.core.api.errors import CorruptState, Expired, Unavailable, UnknownSchema, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.local import LocalCluster, open_cluster, store
from convoy.core.cluster.port import Kind
from support import manifests

COUNT_UP = """
import sys, time
from pathlib import Path
from convoy.core.api.errors import Conflict
from convoy.core.cluster.local import open_cluster
from convoy.core.cluster.port import Kind
with open_cluster(Path(sys.argv[1])) as cluster:
    done = conflicts = 0
    time.sleep(max(0.0, float(sys.argv[3]) - time.time()))
    while done < int(sys.argv[2]):
        job = cluster.get(Kind.ELASTIC_JOB, "default", "job")
        job["status"] = {"master": {"epoch": job.get("status", {}).get("master", {}).get("epoch", 0) + 1}}
        try:
            cluster.apply_status(job, field_manager="convoy-master")
            done += 1
        except Conflict:
            conflicts += 1
print(conflicts)
"""


def secret(name: str, value: str = "") -> Manifest:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"key": value}}


def test_only_the_user_reads_the_files(cluster: LocalCluster) -> None:
    cluster.create(secret("one"), field_manager="t")
    files = [file for file in cluster.layout.root.iterdir() if file.is_file()]
    assert {file.name for file in files} >= {"cluster.db", "cluster.db-wal"}
    assert {oct(file.stat().st_mode & 0o777) for file in files} == {"0o600"}
    assert cluster.layout.root.stat().st_mode & 0o777 == 0o700


def test_what_was_written_is_there_for_the_next_process(state_dir: Path) -> None:
    with open_cluster(state_dir) as first:
        made = first.create(manifests.job("job"), field_manager="t")
    with open_cluster(state_dir) as second:
        assert second.get(Kind.ELASTIC_JOB, "default", "job") == made


def test_a_newer_schema_is_refused(state_dir: Path) -> None:
    open_cluster(state_dir).close()
    with sqlite3.connect(state_dir / "cluster" / "cluster.db") as connection:
        connection.execute(f"PRAGMA user_version = {store.SCHEMA + 1}")
    connection.close()
    with pytest.raises(UnknownSchema, match="upgrade"):
        open_cluster(state_dir)


def test_another_database_is_refused_and_left_as_it_is(state_dir: Path) -> None:
    (state_dir / "cluster").mkdir()
    with sqlite3.connect(state_dir / "cluster" / "cluster.db") as connection:
        connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(CorruptState, match="not of a Convoy cluster"):
        open_cluster(state_dir)
    with sqlite3.connect(state_dir / "cluster" / "cluster.db") as connection:
        assert [name for (name,) in connection.execute("SELECT name FROM sqlite_master")] == ["theirs"]
    connection.close()


def test_a_file_that_is_no_database_is_refused(state_dir: Path) -> None:
    (state_dir / "cluster").mkdir()
    (state_dir / "cluster" / "cluster.db").write_bytes(b"not a database, " * 100)
    with pytest.raises(CorruptState, match=r"cluster\.db"):
        open_cluster(state_dir)


def test_a_state_directory_that_cant_be_written_is_unusable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unusable, match="file"):
        open_cluster(tmp_path / "file" / "state")


def test_the_log_is_bounded_and_who_is_further_behind_must_list_again(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "KEPT_CHANGES", 50)
    since = cluster.list(Kind.SECRET).resource_version
    for number in range(600):
        cluster.apply(secret("one", f"{number:08}"), field_manager="t")
    with pytest.raises(Expired, match="list again"):
        next(cluster.watch(Kind.SECRET, since, timeout=0))
    listing = cluster.list(Kind.SECRET)
    assert list(cluster.watch(Kind.SECRET, listing.resource_version, timeout=0)) == []
    with cluster.store.connection() as connection:
        assert connection.execute("SELECT count(*) FROM changes").fetchone()[0] <= 50 + 250


def test_a_watch_of_a_quiet_kind_outlives_the_trimming(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "KEPT_CHANGES", 400)
    since = cluster.list(Kind.ELASTIC_JOB).resource_version
    heard: list[str] = []

    def follow() -> None:
        heard.append(next(cluster.watch(Kind.ELASTIC_JOB, since, timeout=20)).object["metadata"]["name"])

    following = threading.Thread(target=follow, daemon=True)
    following.start()
    for number in range(1000):
        cluster.apply(secret("one", f"{number:08}"), field_manager="t")
        if number % 50 == 0:
            time.sleep(0.03)
    with pytest.raises(Expired):
        next(cluster.watch(Kind.ELASTIC_JOB, since, timeout=0))
    cluster.create(manifests.job("job"), field_manager="t")
    following.join(10)
    assert heard == ["job"]


def test_a_failed_write_leaves_nothing_behind(cluster: LocalCluster) -> None:
    before = cluster.list(Kind.SECRET)
    half = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "namespace": "d", "uid": "u"}}

    def fail_half_way() -> None:
        with cluster.store.transaction() as transaction:
            transaction.put(half, {})
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert cluster.list(Kind.SECRET) == before


def test_a_closed_cluster_says_so(state_dir: Path) -> None:
    cluster = open_cluster(state_dir)
    cluster.close()
    with pytest.raises(Unavailable, match="closed"):
        cluster.list(Kind.POD)


def test_a_cluster_opened_twice_in_a_process_keeps_its_log_when_another_process_ends(
    cluster: LocalCluster, state_dir: Path
) -> None:
    code = """
import sys
from pathlib import Path
from convoy.core.cluster.local import open_cluster
with open_cluster(Path(sys.argv[1])) as cluster:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": sys.argv[2]}}
    cluster.create(secret, field_manager="t")
"""
    with open_cluster(state_dir) as second:
        for name in ("one", "two"):  # each is the last to end where we hold no lock
            subprocess.run([sys.executable, "-c", code, str(state_dir), name], check=True, timeout=50)
            assert (cluster.layout.root / "cluster.db-wal").exists()
            assert cluster.get(Kind.SECRET, "default", name) == second.get(Kind.SECRET, "default", name)


def test_of_processes_that_race_for_a_version_one_wins_each_time(cluster: LocalCluster, state_dir: Path) -> None:
    cluster.create(manifests.job("job"), field_manager="t")
    command = [sys.executable, "-c", COUNT_UP, str(state_dir), "60", str(time.time() + 2.0)]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [racer.communicate(timeout=50)[0] for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    job = cluster.get(Kind.ELASTIC_JOB, "default", "job")
    assert job["status"]["master"]["epoch"] == 180
    changes = list(cluster.watch(Kind.ELASTIC_JOB, "0", timeout=0))
    epochs = [one.object.get("status", {}).get("master", {}).get("epoch", 0) for one in changes]
    assert epochs == list(range(181))
    assert sum(map(int, outputs)) > 0, "the racers never met; the test showed nothing"


def test_a_process_killed_while_it_writes_loses_nothing_that_was_committed(state_dir: Path) -> None:
    code = """
import sys
from pathlib import Path
from convoy.core.cluster.local import open_cluster
cluster = open_cluster(Path(sys.argv[1]))
secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}}
for number in range(10**9):
    cluster.apply({**secret, "data": {"n": str(number)}}, field_manager="t")
    print(number, flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code, state_dir], stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [int(next(writer.stdout)) for _ in range(200)]
        writer.kill()
        said += [int(line) for line in writer.stdout]
    with open_cluster(state_dir) as cluster:
        assert int(cluster.get(Kind.SECRET, "default", "one")["data"]["n"]) >= said[-1]
        assert cluster.create(secret("two"), field_manager="t")
        with cluster.store.connection() as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


def test_threads_share_one_cluster(cluster: LocalCluster) -> None:
    with ThreadPoolExecutor(8) as pool:
        names = [f"s{number}" for number in range(80)]
        list(pool.map(lambda name: cluster.create(secret(name), field_manager="t"), names))
    assert len(cluster.list(Kind.SECRET).items) == 80
