"""Writers while the API server dies, freezes, or wants another token: each write is done or told, none is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from convoy.core.api.errors import AlreadyExists, ConvoyError, Unavailable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.follow import InSync, Pace, follow
from convoy.core.cluster.kubernetes import KubernetesCluster
from convoy.core.cluster.kubernetes.connection import Limits
from convoy.core.cluster.port import Change, Kind
from servers.api_server import ApiServer
from support.disposable import disposable_api_server
from support.line import line_to
from support.mounted_account import MountedAccount
from support.waiting import until
from support.wire_peer import kubeconfig

pytestmark = pytest.mark.servers

QUICK = Limits(connect=1.0, answer=1.5, whole=3.0, silence=1.0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with disposable_api_server(tmp_path_factory.mktemp("api-server")) as started:
        yield started


@pytest.fixture
def cluster(server: ApiServer) -> Iterator[KubernetesCluster]:
    with KubernetesCluster.open(server.kubeconfig, limits=QUICK) as opened:
        yield opened


def config_map(name: str, **data: str) -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def again(write: Callable[[], object], errors: list[ConvoyError]) -> None:
    """Write until it is done, as a reconciler does."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        try:
            write()
            return
        except Unavailable as error:
            errors.append(error)
            time.sleep(0.05)
    raise errors[-1]


@pytest.fixture
def mortal(home: Path) -> Iterator[ApiServer]:
    """Give an API server of the test's own, which it may kill and bring back."""
    with disposable_api_server(home / "api-server") as started:
        yield started


def test_writers_and_a_follower_outlive_the_servers_death(mortal: ApiServer) -> None:
    """Four writers count up; a follower that is told all the time ends with what is there."""
    cluster = KubernetesCluster.open(mortal.kubeconfig, limits=QUICK)
    errors: list[ConvoyError] = []
    seen: dict[str, str] = {}
    enough, stop, rounds = threading.Event(), threading.Event(), [0] * 4

    def count(writer: int) -> None:
        while not enough.is_set():
            rounds[writer] += 1
            wanted = config_map(f"count-{writer}", number=str(rounds[writer]))
            again(partial(cluster.apply, wanted, field_manager=f"writer-{writer}"), errors)

    def watch() -> None:
        pace = Pace(watch=5, resync=600, first_wait=0.05, longest_wait=0.2)
        for told in follow(cluster, Kind.CONFIG_MAP, "default", stop=stop, pace=pace):
            if isinstance(told, Change) and told.type != "DELETED":
                seen[told.object["metadata"]["name"]] = told.object["data"].get("number", "")

    writers = [threading.Thread(target=count, args=(writer,)) for writer in range(4)]
    follower = threading.Thread(target=watch)
    for thread in (*writers, follower):
        thread.start()
    try:
        until(lambda: sum(rounds) > 20, "writes")
        mortal.kill()
        until(lambda: errors, "the loss to be noticed")
        mortal.start()
        before = sum(rounds)
        until(lambda: sum(rounds) > before + 20, "writes to go on", timeout=20)
        enough.set()
        for thread in writers:
            thread.join(20)
        wanted = {f"count-{writer}": str(number) for writer, number in enumerate(rounds)}
        until(lambda: {name: number for name, number in seen.items() if number} == wanted, "all to be told")
        assert all(isinstance(error, Unavailable) for error in errors)
    finally:
        enough.set()
        stop.set()
        cluster.close()
        for thread in (*writers, follower):
            thread.join(20)


def test_a_refused_connection_is_told_at_once(home: Path) -> None:
    path = kubeconfig(home, "http://127.0.0.1:1", token="t")
    begin = time.monotonic()
    with KubernetesCluster.open(path) as nobody:
        for ask in (
            lambda: nobody.create(config_map("one"), field_manager="t"),
            lambda: nobody.apply(config_map("one"), field_manager="t"),
            lambda: nobody.apply_status(config_map("one"), field_manager="t"),
            lambda: nobody.delete(Kind.CONFIG_MAP, "default", "one"),
            lambda: nobody.list(Kind.POD),
        ):
            with pytest.raises(Unavailable, match="nothing takes connections there"):
                ask()
    assert time.monotonic() - begin < 2


def test_a_create_whose_answer_was_lost_is_found_done(server: ApiServer, home: Path) -> None:
    with (
        line_to(server.port) as line,
        KubernetesCluster.open(line.kubeconfig(server.kubeconfig, home / "over-the-line"), limits=QUICK) as cluster,
    ):
        cluster.list(Kind.CONFIG_MAP)  # a connection is there
        line.deaf.set()
        begin = time.monotonic()
        with pytest.raises(Unavailable, match="no answer within") as caught:
            cluster.create(config_map("lost", key="a"), field_manager="t")
        assert caught.value.retry_after is None
        assert time.monotonic() - begin < 4
        line.deaf.clear()
        with pytest.raises(AlreadyExists):
            cluster.create(config_map("lost", key="a"), field_manager="t")
        assert cluster.apply(config_map("lost", key="a"), field_manager="t")["data"] == {"key": "a"}
        cluster.delete(Kind.CONFIG_MAP, "default", "lost")


def test_a_frozen_server_is_told_in_time_and_written_to_after_the_thaw(
    server: ApiServer, cluster: KubernetesCluster
) -> None:
    server.freeze()
    begin = time.monotonic()
    try:
        for write in (cluster.create, cluster.apply, cluster.apply_status):
            with pytest.raises(Unavailable, match=r"no (answer|connection) within"):
                write(config_map("cold"), field_manager="t")
        assert time.monotonic() - begin < 12
    finally:
        server.thaw()
    again(partial(cluster.apply, config_map("cold", key="a"), field_manager="t"), [])
    assert cluster.get(Kind.CONFIG_MAP, "default", "cold")["data"] == {"key": "a"}
    cluster.delete(Kind.CONFIG_MAP, "default", "cold")


def test_a_writer_outlives_the_end_of_its_token(
    server: ApiServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.config import incluster_config

    account = MountedAccount(server.kubeconfig, home / "account")
    old = (account.folder / "token").read_text()
    host, port = account.address.removeprefix("https://").split(":")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account.folder / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account.folder / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    with KubernetesCluster.open(limits=QUICK) as cluster:
        cluster.apply(config_map("mine", key="a"), field_manager="t")
        account.rotate()
        until(lambda: server.get("/api/v1/configmaps", old) == 401, "the old token to be refused", timeout=30)
        assert cluster.apply(config_map("mine", key="b"), field_manager="t")["data"] == {"key": "b"}
        cluster.delete(Kind.CONFIG_MAP, "default", "mine")


def test_who_follows_may_write_what_he_is_told_of(server: ApiServer, cluster: KubernetesCluster) -> None:
    stop = threading.Event()
    cluster.apply(config_map("asked", key="1"), field_manager="t")
    told = follow(cluster, Kind.CONFIG_MAP, "default", stop=stop, pace=Pace(watch=10))
    while not isinstance(next(told), InSync):
        pass
    for number in range(2, 6):
        cluster.apply(config_map("asked", key=str(number)), field_manager="t")
        change = next(told)
        assert isinstance(change, Change)
        assert change.object["data"] == {"key": str(number)}
    stop.set()
    told.close()  # type: ignore[attr-defined]
    cluster.delete(Kind.CONFIG_MAP, "default", "asked")
