"""A reader and its followers while the API server dies, freezes, forgets, or wants another token.

Followers are pulled by the test, one thing told at a time: between two pulls nobody looks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from convoy.core.api.errors import Expired, Unavailable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.follow import InSync, Known, OutOfSync, Pace, Told, follow
from convoy.core.cluster.kubernetes import KubernetesReader
from convoy.core.cluster.kubernetes.connection import Limits
from convoy.core.cluster.port import Change, Kind
from servers.api_server import ApiServer
from support.disposable import disposable_api_server
from support.mounted_account import MountedAccount
from support.raw_objects import raw_objects
from support.waiting import until
from support.wire_peer import kubeconfig

pytestmark = pytest.mark.servers

QUICK = Limits(connect=1.0, answer=1.5, silence=1.0)
PACE = Pace(watch=20.0, resync=600.0, first_wait=0.05, longest_wait=0.5)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Etcd's versions are its own: without a watch cache the API server asks etcd for old ones."""
    folder = tmp_path_factory.mktemp("api-server")
    with disposable_api_server(folder, flags=["--watch-cache=false"]) as started:
        yield started


@pytest.fixture
def server(shared: ApiServer) -> Iterator[ApiServer]:
    """Give the module's API server; it may be frozen, and is well and empty again afterwards."""
    yield shared
    shared.thaw()
    with raw_objects(shared.kubeconfig) as hands:
        hands.clear()


@pytest.fixture
def reader(server: ApiServer) -> Iterator[KubernetesReader]:
    with KubernetesReader.open(server.kubeconfig, limits=QUICK) as opened:
        yield opened


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def secret(name: str, value: str = "") -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": value}}


def put(server: ApiServer, *names: str, value: str = "") -> list[Known]:
    with raw_objects(server.kubeconfig) as hands:
        return [Known.of(hands.apply(secret(name, value))) for name in names]


def drop(server: ApiServer, *names: str) -> None:
    with raw_objects(server.kubeconfig) as hands:
        for name in names:
            hands.delete(Kind.SECRET, "default", name)


def brief(told: Told) -> str:
    if isinstance(told, Change):
        return f"{told.type} {told.object['metadata']['name']}"
    return told.reason if isinstance(told, OutOfSync) else "InSync"


def take(told: Iterator[Told], count: int) -> list[str]:
    return [brief(next(told)) for _ in range(count)]


class TestDeath:
    @pytest.fixture
    def server(self, home: Path) -> Iterator[ApiServer]:
        """Give an API server of the test's own, which it may kill and bring back."""
        with disposable_api_server(home / "api-server") as started:
            yield started

    def test_a_follower_outlives_it_and_tells_what_went_and_changed_meanwhile(
        self, server: ApiServer, reader: KubernetesReader, stop: threading.Event
    ) -> None:
        put(server, "a", "b", "c")
        told = follow(reader, Kind.SECRET, stop=stop, pace=PACE)
        assert take(told, 4) == ["ADDED a", "ADDED b", "ADDED c", "InSync"]
        put(server, "d")
        assert take(told, 1) == ["ADDED d"]  # it watches
        server.kill()
        assert take(told, 1) == ["Unavailable"]
        server.start()
        drop(server, "a")
        put(server, "b", value="bmV3")
        put(server, "e")
        assert sorted(take(told, 3)) == ["ADDED e", "DELETED a", "MODIFIED b"]
        assert take(told, 1) == ["InSync"]
        put(server, "f")
        assert take(told, 1) == ["ADDED f"]

    def test_one_that_waits_in_a_watch_is_told_and_waits_for_the_return(
        self, server: ApiServer, reader: KubernetesReader, stop: threading.Event
    ) -> None:
        seen: list[str] = []
        told = follow(reader, Kind.SECRET, stop=stop, pace=PACE)
        thread = threading.Thread(target=lambda: seen.extend(map(brief, told)))
        thread.start()
        until(lambda: seen == ["InSync"], "the first list")
        server.kill()
        until(lambda: seen == ["InSync", "Unavailable"], "the loss to be noticed")
        server.start()
        until(lambda: seen == ["InSync", "Unavailable", "InSync"], "the return to be noticed")
        put(server, "a")
        until(lambda: seen[3:] == ["ADDED a"], "a change after the return")
        stop.set()
        reader.close()
        thread.join(5)
        assert not thread.is_alive()


def test_what_went_while_the_process_was_away_is_told(
    server: ApiServer, reader: KubernetesReader, stop: threading.Event
) -> None:
    known = put(server, "gone", "replaced", "same")
    drop(server, "gone", "replaced")
    put(server, "replaced")
    told = follow(reader, Kind.SECRET, "default", stop=stop, known=known, pace=PACE)
    assert take(told, 4) == ["DELETED replaced", "ADDED replaced", "DELETED gone", "InSync"]


class TestFreeze:
    def test_silence_ends_a_watch_and_a_follower_waits_for_the_thaw(
        self, server: ApiServer, reader: KubernetesReader, stop: threading.Event
    ) -> None:
        put(server, "a")
        told = follow(reader, Kind.SECRET, stop=stop, pace=PACE)
        assert take(told, 2) == ["ADDED a", "InSync"]
        server.freeze()
        begin = time.monotonic()
        lost = next(told)
        assert isinstance(lost, OutOfSync)
        assert "within" in lost.message
        assert time.monotonic() - begin < 10
        server.thaw()
        put(server, "b")
        assert take(told, 2) == ["ADDED b", "InSync"]

    def test_a_watch_returns_in_time_though_the_server_says_nothing(
        self, server: ApiServer, reader: KubernetesReader
    ) -> None:
        put(server, "a")
        watch = reader.watch(Kind.SECRET, self.first_version(reader), timeout=30)
        assert next(watch).type == "ADDED"
        server.freeze()
        begin = time.monotonic()
        assert list(watch) == []
        assert time.monotonic() - begin < 5
        with pytest.raises(Unavailable):
            reader.get(Kind.SECRET, "default", "a")
        assert time.monotonic() - begin < 15

    @staticmethod
    def first_version(reader: KubernetesReader) -> str:
        made = reader.get(Kind.SECRET, "default", "a")["metadata"]["resourceVersion"]
        return str(int(made) - 1)


class TestForgotten:
    def test_a_watch_from_a_compacted_version_is_expired(self, server: ApiServer, reader: KubernetesReader) -> None:
        known, *_ = put(server, "a", "b", "c")
        server.compact()
        with pytest.raises(Expired, match="list again"):
            next(reader.watch(Kind.SECRET, known.resource_version, timeout=5))

    def test_a_follower_lists_again_and_tells_what_went(
        self, server: ApiServer, reader: KubernetesReader, stop: threading.Event
    ) -> None:
        put(server, "a", "b")
        told = follow(reader, Kind.SECRET, stop=stop, pace=PACE)
        assert take(told, 3) == ["ADDED a", "ADDED b", "InSync"]
        drop(server, "a")
        put(server, "b", value="bmV3")
        server.compact()  # before the first watch has begun
        assert take(told, 3) == ["MODIFIED b", "DELETED a", "InSync"]

    def test_a_page_asked_for_too_late_is_expired_and_a_new_list_isnt(
        self, server: ApiServer, reader: KubernetesReader, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("convoy.core.cluster.kubernetes.reader.PAGE", 2)
        put(server, "a", "b", "c")
        pages = reader.pages(Kind.SECRET)
        assert len(next(pages).items) == 2
        drop(server, "a")
        server.compact()
        with pytest.raises(Expired, match="list secrets"):
            next(pages)
        assert [one["metadata"]["name"] for one in reader.list(Kind.SECRET).items] == ["b", "c"]


class TestRotation:
    @pytest.mark.parametrize("how", ["in a pod", "tokenFile"])
    def test_a_follower_outlives_the_end_of_its_token(
        self, server: ApiServer, home: Path, stop: threading.Event, monkeypatch: pytest.MonkeyPatch, how: str
    ) -> None:
        account = MountedAccount(server.kubeconfig, home / "account")
        old = (account.folder / "token").read_text()
        reader = self.open(account, home, monkeypatch, how)
        told = follow(reader, Kind.SECRET, stop=stop, pace=Pace(watch=1.0, resync=600.0))
        while not isinstance(next(told), InSync):
            pass
        account.rotate()
        until(lambda: server.get("/api/v1/secrets", old) == 401, "the old token to be refused", timeout=30)
        put(server, "after")
        later = [brief(next(told))]
        while later[-1] != "ADDED after":
            later.append(brief(next(told)))
        assert "Unauthorized" not in later
        reader.close()

    @staticmethod
    def open(account: MountedAccount, home: Path, patch: pytest.MonkeyPatch, how: str) -> KubernetesReader:
        """Return a reader that has the account's token from its file."""
        if how == "tokenFile":
            path = kubeconfig(home, account.address, tokenFile=str(account.folder / "token"))
            path.write_text(
                path.read_text().replace(
                    '"server"', f'"certificate-authority": "{account.folder / "ca.crt"}", "server"'
                )
            )
            return KubernetesReader.open(path, limits=QUICK)
        from kubernetes.config import incluster_config

        host, port = account.address.removeprefix("https://").split(":")
        patch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(account.folder / "token"))
        patch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(account.folder / "ca.crt"))
        patch.setenv("KUBERNETES_SERVICE_HOST", host)
        patch.setenv("KUBERNETES_SERVICE_PORT", port)
        return KubernetesReader.open(limits=QUICK)
