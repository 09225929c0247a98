"""What every adapter of the whole cluster port does. A new adapter passes by being added to ``ADAPTERS``.

What readers do is held by ``test_conformance_reading.py``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from convoy.core.api.errors import AlreadyExists, Conflict, InvalidManifest, NotFound
from convoy.core.api.meta import Manifest
from convoy.core.cluster.local import LocalKubelet, open_cluster
from convoy.core.cluster.port import Cluster, Kind
from support import manifests
from support.pods import end_all, main_pid, pod, python, runs, terminated, wait_gone, wait_phase


@contextmanager
def _local(state_dir: Path) -> Iterator[Cluster]:
    with open_cluster(state_dir) as cluster:
        kubelet = LocalKubelet(cluster)
        kubelet.start()
        yield cluster
        end_all(cluster)
        kubelet.stop()


ADAPTERS: dict[str, Callable[[Path], AbstractContextManager[Cluster]]] = {"local": _local}
"""By name, what opens an empty cluster that runs pods."""


@pytest.fixture(params=list(ADAPTERS))
def port(request: pytest.FixtureRequest, state_dir: Path) -> Iterator[Cluster]:
    with ADAPTERS[request.param](state_dir) as cluster:
        yield cluster


def secret(name: str, owner: Manifest | None = None, **data: str) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": "default"}
    if owner is not None:
        metadata["ownerReferences"] = [_reference(owner)]
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def _reference(owner: Manifest) -> Manifest:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def version(manifest: Manifest) -> int:
    return int(manifest["metadata"]["resourceVersion"])


class TestCreateAndRead:
    def test_a_created_object_has_an_identity_and_is_read_as_it_was_returned(self, port: Cluster) -> None:
        made = port.create(manifests.job("one"), field_manager="test")
        assert made["metadata"]["uid"]
        assert made["metadata"]["generation"] == 1
        assert made["metadata"]["creationTimestamp"].endswith("Z")
        assert made["metadata"]["namespace"] == "default"
        assert port.get(Kind.ELASTIC_JOB, "default", "one") == made

    def test_a_second_of_the_same_name_is_refused(self, port: Cluster) -> None:
        port.create(secret("one"), field_manager="test")
        with pytest.raises(AlreadyExists, match="one"):
            port.create(secret("one"), field_manager="test")

    def test_what_isnt_there_isnt_found(self, port: Cluster) -> None:
        with pytest.raises(NotFound):
            port.delete(Kind.SECRET, "default", "none")
        with pytest.raises(NotFound):
            port.apply_status({**manifests.job("none"), "status": {}}, field_manager="test")

    def test_a_manifest_that_its_schema_refuses_changes_nothing(self, port: Cluster) -> None:
        wrong = manifests.job("wrong")
        wrong["spec"]["distributionStrategy"] = "GossipStrategy"
        with pytest.raises(InvalidManifest) as caught:
            port.create(wrong, field_manager="test")
        assert caught.value.path == "spec.distributionStrategy"
        assert port.list(Kind.ELASTIC_JOB).items == []

    def test_an_event_is_none_of_what_is_written(self, port: Cluster) -> None:
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "one", "namespace": "default"}}
        with pytest.raises(InvalidManifest, match=r"expected one of ElasticJob.*, not 'Event'"):
            port.create(event, field_manager="test")

    def test_a_secrets_plain_strings_are_kept_encoded(self, port: Cluster) -> None:
        manifest = {**secret("plain"), "stringData": {"token": "abc"}}
        del manifest["data"]
        port.create(manifest, field_manager="test")
        assert port.get(Kind.SECRET, "default", "plain")["data"] == {"token": "YWJj"}


class TestApply:
    def test_it_creates_then_changes_and_only_the_spec_moves_the_generation(self, port: Cluster) -> None:
        made = port.apply(manifests.job("one"), field_manager="user")
        labelled = manifests.job("one")
        labelled["metadata"]["labels"] = {"team": "a"}
        second = port.apply(labelled, field_manager="user")
        assert second["metadata"]["generation"] == made["metadata"]["generation"]
        labelled["spec"]["replicaSpecs"]["worker"]["replicas"] = 3
        third = port.apply(labelled, field_manager="user")
        assert third["metadata"]["generation"] == made["metadata"]["generation"] + 1
        assert version(made) < version(second) < version(third)

    def test_the_same_again_writes_nothing(self, port: Cluster) -> None:
        first = port.apply(manifests.job("one"), field_manager="user")
        assert port.apply(manifests.job("one"), field_manager="user") == first

    def test_fields_that_the_manager_no_longer_names_go_and_others_stay(self, port: Cluster) -> None:
        port.apply(secret("one", mine="YQ==", also="Yg=="), field_manager="a")
        port.apply(secret("one", theirs="Yw=="), field_manager="b")
        assert port.apply(secret("one", mine="YQ=="), field_manager="a")["data"] == {"mine": "YQ==", "theirs": "Yw=="}

    def test_a_field_of_another_manager_is_a_conflict_unless_forced(self, port: Cluster) -> None:
        port.apply(secret("one", key="YQ=="), field_manager="a")
        with pytest.raises(Conflict, match=r"data.key.*a"):
            port.apply(secret("one", key="Yg=="), field_manager="b")
        assert port.apply(secret("one", key="Yg=="), field_manager="b", force=True)["data"] == {"key": "Yg=="}
        assert port.apply(secret("one"), field_manager="a")["data"] == {"key": "Yg=="}

    def test_a_stale_resource_version_is_a_conflict(self, port: Cluster) -> None:
        old = port.apply(secret("one", key="YQ=="), field_manager="a")
        port.apply(secret("one", key="Yg=="), field_manager="a")
        stale = secret("one", key="Yw==")
        stale["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
        with pytest.raises(Conflict, match="changed"):
            port.apply(stale, field_manager="a")
        assert port.get(Kind.SECRET, "default", "one")["data"] == {"key": "Yg=="}

    def test_it_never_writes_the_status(self, port: Cluster) -> None:
        port.apply({**manifests.job("one"), "status": {"phase": "Running"}}, field_manager="user")
        assert port.get(Kind.ELASTIC_JOB, "default", "one").get("status", {}).get("phase") is None


class TestStatus:
    def test_managers_own_their_parts_and_the_spec_stays(self, port: Cluster) -> None:
        made = port.apply(manifests.job("one"), field_manager="user")
        self.write(port, {"phase": "Running"}, "convoy-operator")
        both = self.write(port, {"master": {"epoch": 1}}, "convoy-master")
        assert both["status"] == {"phase": "Running", "master": {"epoch": 1}}
        assert both["spec"] == made["spec"]
        assert both["metadata"]["generation"] == made["metadata"]["generation"]
        assert self.write(port, {}, "convoy-operator")["status"] == {"master": {"epoch": 1}}

    def test_the_same_again_writes_nothing(self, port: Cluster) -> None:
        port.apply(manifests.job("one"), field_manager="user")
        first = self.write(port, {"phase": "Running"}, "convoy-operator")
        assert self.write(port, {"phase": "Running"}, "convoy-operator") == first

    def test_conditions_are_merged_by_type(self, port: Cluster) -> None:
        port.apply(manifests.job("one"), field_manager="user")
        mine = {"type": "Placed", "status": "True", "reason": "Fits"}
        theirs = {"type": "Trains", "status": "False", "reason": "Waits"}
        self.write(port, {"conditions": [mine]}, "a")
        self.write(port, {"conditions": [theirs]}, "b")
        after = self.write(port, {"conditions": [{**theirs, "status": "True"}]}, "b")
        assert after["status"]["conditions"] == [mine, {**theirs, "status": "True"}]

    def test_two_who_read_the_same_version_cant_both_write(self, port: Cluster) -> None:
        read = port.apply(manifests.job("one"), field_manager="user")
        at = read["metadata"]["resourceVersion"]
        self.write(port, {"master": {"epoch": 1}}, "convoy-master", at)
        with pytest.raises(Conflict):
            self.write(port, {"master": {"epoch": 1}}, "convoy-master", at)

    def test_a_foreign_field_is_a_conflict_where_not_forced(self, port: Cluster) -> None:
        port.apply(manifests.job("one"), field_manager="user")
        self.write(port, {"phase": "Running"}, "a")
        job = manifests.job("one") | {"status": {"phase": "Failed"}}
        with pytest.raises(Conflict, match="phase"):
            port.apply_status(job, field_manager="b", force=False)

    @staticmethod
    def write(port: Cluster, status: Manifest, manager: str, at: str | None = None) -> Manifest:
        manifest = manifests.job("one") | {"status": status}
        if at is not None:
            manifest["metadata"]["resourceVersion"] = at
        return port.apply_status(manifest, field_manager=manager)


class TestDeleteAndOwners:
    def test_what_an_owner_controls_goes_with_it_down_to_the_last(self, port: Cluster) -> None:
        job = port.create(manifests.job("one"), field_manager="t")
        child = port.create(secret("child", job), field_manager="t")
        port.create(secret("grandchild", child), field_manager="t")
        port.create(secret("other"), field_manager="t")
        port.delete(Kind.ELASTIC_JOB, "default", "one")
        _eventually(lambda: [one["metadata"]["name"] for one in port.list(Kind.SECRET).items] == ["other"])

    def test_what_is_created_for_an_owner_that_is_gone_doesnt_stay(self, port: Cluster) -> None:
        job = port.create(manifests.job("one"), field_manager="t")
        port.delete(Kind.ELASTIC_JOB, "default", "one")
        port.create(secret("late", job), field_manager="t")
        _eventually(lambda: not port.list(Kind.SECRET).items)

    def test_another_uid_isnt_deleted(self, port: Cluster) -> None:
        made = port.create(secret("one"), field_manager="t")
        with pytest.raises(NotFound, match="uid"):
            port.delete(Kind.SECRET, "default", "one", uid="another")
        port.delete(Kind.SECRET, "default", "one", uid=made["metadata"]["uid"])
        assert not port.list(Kind.SECRET).items


class TestPods:
    def test_a_pod_runs_and_succeeds_and_its_log_is_kept(self, port: Cluster) -> None:
        port.create(pod("hello", "sh", "-c", "echo one; echo two >&2; echo three"), field_manager="t")
        ended = wait_phase(port, "hello", "Succeeded")
        assert terminated(ended)["exitCode"] == 0
        assert terminated(ended)["reason"] == "Completed"
        assert port.logs("default", "hello") == "one\ntwo\nthree\n"
        assert port.logs("default", "hello", tail=2) == "two\nthree\n"

    def test_a_pod_that_fails_tells_its_exit_code(self, port: Cluster) -> None:
        port.create(pod("bad", "sh", "-c", "exit 3"), field_manager="t")
        assert terminated(wait_phase(port, "bad", "Failed"))["exitCode"] == 3

    def test_secrets_and_fields_reach_the_environment(self, port: Cluster) -> None:
        port.create(secret("token", token="czNjcjN0"), field_manager="t")
        env = [
            {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "token"}}},
            {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "GREETING", "value": "hello $(WHO)"},
        ]
        port.create(
            pod("env", "sh", "-c", "echo $TOKEN $GREETING $0", "$(TOKEN)-$$(WHO)", env=env), field_manager="t"
        )
        wait_phase(port, "env", "Succeeded")
        assert port.logs("default", "env") == "s3cr3t hello env s3cr3t-$(WHO)\n"

    def test_a_deleted_pod_may_end_in_its_grace(self, port: Cluster) -> None:
        code = "import signal,sys,time\nsignal.signal(15, lambda *_: sys.exit(0))\nprint('up')\ntime.sleep(60)"
        port.create(python("polite", code), field_manager="t")
        pid = main_pid(wait_phase(port, "polite", "Running"))
        _eventually(lambda: port.logs("default", "polite") == "up\n")
        since = port.list(Kind.POD).resource_version
        port.delete(Kind.POD, "default", "polite", grace_seconds=20)
        assert port.get(Kind.POD, "default", "polite")["metadata"]["deletionTimestamp"]
        wait_gone(port, "polite", timeout=5)
        assert not runs(pid)
        last = list(port.watch(Kind.POD, since, timeout=0.2))[-1]
        assert last.type == "DELETED"
        assert terminated(last.object)["exitCode"] == 0

    def test_a_pod_that_wont_end_is_killed_when_its_grace_is_over(self, port: Cluster) -> None:
        code = "import signal,time\nsignal.signal(15, signal.SIG_IGN)\nprint('up')\ntime.sleep(60)"
        port.create(python("stubborn", code), field_manager="t")
        pid = main_pid(wait_phase(port, "stubborn", "Running"))
        _eventually(lambda: port.logs("default", "stubborn") == "up\n")
        begin = time.monotonic()
        port.delete(Kind.POD, "default", "stubborn", grace_seconds=1)
        wait_gone(port, "stubborn", timeout=8)
        assert 0.9 <= time.monotonic() - begin < 5
        assert not runs(pid)

    def test_a_pod_that_doesnt_fit_waits_and_says_why(self, port: Cluster) -> None:
        huge = pod("huge", "true", resources={"requests": {"cpu": "10000"}})
        port.create(huge, field_manager="t")

        def placed() -> Manifest:
            conditions = port.get(Kind.POD, "default", "huge")["status"].get("conditions", [])
            return next((one for one in conditions if one["type"] == "PodScheduled"), {})

        _eventually(lambda: placed().get("reason") == "Unschedulable")
        assert placed()["status"] == "False"
        assert "cpu" in placed()["message"]
        port.delete(Kind.POD, "default", "huge")
        wait_gone(port, "huge", timeout=3)


def test_the_cluster_has_nodes_with_capacity(port: Cluster) -> None:
    nodes = port.list(Kind.NODE).items
    assert nodes
    assert all({"cpu", "memory"} <= one["status"]["allocatable"].keys() for one in nodes)


def test_a_service_has_a_port(port: Cluster) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"ports": [{"name": "grpc", "port": 50001}]},
    }
    assert port.create(service, field_manager="t")["spec"]["ports"][0]["port"] == 50001


def _eventually(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "didn't become true in time"
        time.sleep(0.02)
