"""What every reader of the cluster port does: one machine's, and the Kubernetes API's on a real API server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pytest

from convoy.core.api.errors import Expired, NotFound
from convoy.core.api.meta import Manifest
from convoy.core.cluster.follow import InSync, Known, Pace, follow
from convoy.core.cluster.kubernetes import KubernetesReader
from convoy.core.cluster.local import open_cluster
from convoy.core.cluster.port import Change, ClusterReader, Kind, api_version
from servers.api_server import ApiServer
from support import manifests
from support.disposable import disposable_api_server
from support.raw_objects import raw_objects


class Hands(Protocol):
    """What makes the objects that are read: the local port itself, or the Kubernetes client."""

    def create(self, manifest: Manifest, *, field_manager: str) -> Manifest: ...
    def apply(self, manifest: Manifest, *, field_manager: str) -> Manifest: ...
    def delete(self, kind: Kind, namespace: str, name: str) -> None: ...


@dataclass
class Stage:
    port: ClusterReader
    hands: Hands

    def create(self, manifest: Manifest) -> Manifest:
        return self.hands.create(manifest, field_manager="t")

    def apply(self, manifest: Manifest) -> Manifest:
        return self.hands.apply(manifest, field_manager="t")

    def delete(self, name: str) -> None:
        self.hands.delete(Kind.SECRET, "default", name)

    def now(self) -> str:
        return self.port.list(Kind.SECRET).resource_version


@pytest.fixture(scope="module", params=["local", pytest.param("kubernetes", marks=pytest.mark.servers)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer | None]:
    if request.param == "local":
        yield None
        return
    with disposable_api_server(tmp_path_factory.mktemp("api-server")) as started:
        yield started


@pytest.fixture
def stage(server: ApiServer | None, state_dir: Path) -> Iterator[Stage]:
    if server is None:
        with open_cluster(state_dir) as cluster:
            yield Stage(cluster, cluster)
        return
    with KubernetesReader.open(server.kubeconfig) as reader, raw_objects(server.kubeconfig) as hands:
        yield Stage(reader, hands)
        hands.clear()


def secret(name: str, namespace: str = "default", labels: dict[str, str] | None = None, **data: str) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def take(stage: Stage, since: str, count: int) -> list[Change]:
    """Return the next changes of secrets."""
    watch = stage.port.watch(Kind.SECRET, since, timeout=20)
    taken = [next(watch) for _ in range(count)]
    watch.close()
    return taken


def brief(change: Change) -> tuple[str, str]:
    return change.type, change.object["metadata"]["name"]


class TestGetAndList:
    def test_an_object_is_read_as_it_was_made(self, stage: Stage) -> None:
        made = stage.create(secret("one", key="YQ=="))
        read = stage.port.get(Kind.SECRET, "default", "one")
        assert read["data"] == {"key": "YQ=="}
        assert (read["apiVersion"], read["kind"]) == ("v1", "Secret")
        for field in ("uid", "resourceVersion", "creationTimestamp", "namespace", "name"):
            assert read["metadata"][field] == made["metadata"][field]

    @pytest.mark.parametrize(
        "kind", [Kind.ELASTIC_JOB, Kind.SECRET, Kind.NODE, Kind.SERVICE, Kind.CONFIG_MAP, Kind.LEASE]
    )
    def test_a_list_holds_what_get_returns(self, stage: Stage, kind: Kind) -> None:
        stage.create(_one_of(kind))
        (item,) = [one for one in stage.port.list(kind).items if one["metadata"]["name"] == "one"]
        namespace = "" if kind is Kind.NODE else "default"
        assert item == stage.port.get(kind, namespace, "one")
        assert item["kind"] == kind
        assert kind is Kind.ELASTIC_JOB or "managedFields" not in item["metadata"]

    def test_what_isnt_there_isnt_found(self, stage: Stage) -> None:
        with pytest.raises(NotFound, match="Secret default/none"):
            stage.port.get(Kind.SECRET, "default", "none")
        with pytest.raises(NotFound, match="nobody"):
            stage.port.logs("default", "nobody")

    def test_list_chooses_by_namespace_and_by_all_labels(self, stage: Stage) -> None:
        stage.create(secret("a", labels={"x": "1"}))
        stage.create(secret("b", labels={"x": "1", "y": "2"}))
        stage.create(secret("c", "elsewhere", labels={"y": "2"}))

        def found(**chosen: Any) -> list[str]:
            return [one["metadata"]["name"] for one in stage.port.list(Kind.SECRET, **chosen).items]

        assert found(namespace="default", labels={"x": "1"}) == ["a", "b"]
        assert found(labels={"x": "1", "y": "2"}) == ["b"]
        assert found(labels={"y": "2"}) == ["b", "c"]
        assert found(namespace="elsewhere") == ["c"]
        assert found(namespace="nowhere") == []

    def test_the_pages_are_the_list(self, stage: Stage) -> None:
        for name in ("a", "b", "c"):
            stage.create(secret(name))
        pages = list(stage.port.pages(Kind.SECRET, "default"))
        whole = stage.port.list(Kind.SECRET, "default")
        assert [item for page in pages for item in page.items] == whole.items
        assert {page.resource_version for page in pages} == {whole.resource_version}

    def test_there_are_no_events_where_none_happened(self, stage: Stage) -> None:
        assert stage.port.list(Kind.EVENT).items == []


class TestWatch:
    def test_changes_come_in_order_from_just_after_the_version(self, stage: Stage) -> None:
        stage.create(secret("before"))
        since = stage.now()
        stage.create(secret("a"))
        stage.apply(secret("a", key="YQ=="))
        stage.create(secret("b"))
        stage.delete("a")
        seen = take(stage, since, 4)
        assert [brief(one) for one in seen] == [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]
        assert seen[-1].object["data"] == {"key": "YQ=="}
        assert seen[-1].object["kind"] == "Secret"
        versions = [int(one.object["metadata"]["resourceVersion"]) for one in seen]
        assert versions == sorted(set(versions))
        assert take(stage, seen[1].object["metadata"]["resourceVersion"], 2) == seen[2:]

    def test_it_keeps_to_its_kind_and_namespace(self, stage: Stage) -> None:
        since = stage.now()
        stage.create(manifests.job("one"))
        stage.create(secret("a", "elsewhere"))
        stage.create(secret("b"))
        assert [brief(one) for one in stage.port.watch(Kind.SECRET, since, "default", timeout=2)] == [("ADDED", "b")]
        assert [brief(one) for one in take(stage, since, 2)] == [("ADDED", "a"), ("ADDED", "b")]

    @pytest.mark.parametrize("timeout", [0.4, 1.5])
    def test_it_ends_when_its_time_is_over(self, stage: Stage, timeout: float) -> None:
        since = stage.port.list(Kind.SCALE_PLAN).resource_version
        begin = time.monotonic()
        assert list(stage.port.watch(Kind.SCALE_PLAN, since, timeout=timeout)) == []
        assert min(timeout, 1.0) - 0.05 <= time.monotonic() - begin < timeout + 3

    def test_it_returns_from_where_to_go_on(self, stage: Stage) -> None:
        since = stage.now()
        stage.create(secret("a"))
        watch = stage.port.watch(Kind.SECRET, since, timeout=1)
        first = next(watch)
        with pytest.raises(StopIteration) as end:
            next(watch)
        assert int(end.value.value) >= int(first.object["metadata"]["resourceVersion"])
        stage.create(secret("b"))
        assert [brief(one) for one in take(stage, end.value.value, 1)] == [("ADDED", "b")]

    def test_one_who_waits_hears_of_a_change(self, stage: Stage) -> None:
        since = stage.now()
        heard: list[Change] = []
        waiting = threading.Thread(target=lambda: heard.extend(take(stage, since, 1)))
        waiting.start()
        time.sleep(0.1)
        stage.create(secret("late"))
        waiting.join(10)
        assert [brief(one) for one in heard] == [("ADDED", "late")]

    @pytest.mark.parametrize("version", ["not-a-version", "", "-1", "99999999999999999999999999"])
    def test_a_version_that_never_was_is_expired(self, stage: Stage, version: str) -> None:
        with pytest.raises(Expired, match="list again"):
            next(stage.port.watch(Kind.SECRET, version, timeout=0.1))


def test_following_tells_what_is_there_what_changes_and_what_went(stage: Stage) -> None:
    known = [Known.of(stage.create(secret(name))) for name in ("same", "changed", "gone")]
    stage.delete("gone")
    stage.apply(secret("changed", key="YQ=="))
    stop = threading.Event()
    told = follow(stage.port, Kind.SECRET, "default", stop=stop, known=known, pace=Pace(watch=2))
    first = [next(told) for _ in range(3)]
    assert [brief(one) for one in first if isinstance(one, Change)] == [("MODIFIED", "changed"), ("DELETED", "gone")]
    assert isinstance(first[-1], InSync)
    stage.delete("same")
    last = next(told)
    assert isinstance(last, Change)
    assert brief(last) == ("DELETED", "same")
    assert last.object["metadata"]["uid"] == known[0].uid


def _one_of(kind: Kind) -> Manifest:
    match kind:
        case Kind.ELASTIC_JOB:
            return manifests.job("one")
        case Kind.NODE:
            return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}}
        case Kind.LEASE:
            metadata = {"name": "one", "namespace": "default"}
            return {
                "apiVersion": api_version(kind),
                "kind": "Lease",
                "metadata": metadata,
                "spec": {"holderIdentity": "me"},
            }
        case Kind.CONFIG_MAP:
            return {**secret("one", key="plain"), "kind": "ConfigMap"}
        case Kind.SERVICE:
            ports = [{"name": "grpc", "port": 50001}]
            metadata = {"name": "one", "namespace": "default"}
            return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}}
        case _:
            return secret("one")
