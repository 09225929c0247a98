"""What every adapter of the cluster port does: one machine, and the Kubernetes API on a real API server.

What readers do is held by ``test_conformance_reading.py``, what pods that run do by ``test_conformance_pods.py``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from convoy.core.api.errors import AlreadyExists, Conflict, InvalidInput, InvalidManifest, NotFound
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Cluster, Kind
from servers.api_server import ApiServer
from support import manifests
from support.clusters import Node, on_kubernetes, on_one_machine
from support.disposable import disposable_api_server
from support.pods import pod, wait_gone
from support.waiting import until


@pytest.fixture(scope="module", params=["local", pytest.param("kubernetes", marks=pytest.mark.servers)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer | None]:
    if request.param == "local":
        yield None
        return
    with disposable_api_server(tmp_path_factory.mktemp("api-server"), controllers=True) as started:
        yield started


@pytest.fixture
def stage(server: ApiServer | None, state_dir: Path) -> Iterator[tuple[Cluster, Node]]:
    """Give an empty cluster, and what runs its pods."""
    with on_one_machine(state_dir) if server is None else on_kubernetes(server) as opened:
        yield opened


@pytest.fixture
def port(stage: tuple[Cluster, Node]) -> Cluster:
    return stage[0]


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


HUGE = {"requests": {"cpu": "10000"}}


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
        with pytest.raises(InvalidManifest) as caught:
            port.apply(wrong, field_manager="test")
        assert caught.value.path == "spec.distributionStrategy"
        assert port.list(Kind.ELASTIC_JOB).items == []

    @pytest.mark.parametrize("write", ["create", "apply"])
    def test_a_field_that_there_isnt_is_refused_with_its_path(self, port: Cluster, write: str) -> None:
        wrong = manifests.job("wrong", spec__speed="high")
        with pytest.raises(InvalidManifest) as caught:
            getattr(port, write)(wrong, field_manager="test")
        assert caught.value.path == "spec.speed"

    @pytest.mark.parametrize("write", ["create", "apply"])
    def test_a_value_of_the_wrong_type_is_refused_with_its_path(self, port: Cluster, write: str) -> None:
        wrong = manifests.job("wrong", worker__replicas="three")
        with pytest.raises(InvalidManifest) as caught:
            getattr(port, write)(wrong, field_manager="test")
        assert caught.value.path == "spec.replicaSpecs.worker.replicas"

    @pytest.mark.parametrize("write", ["create", "apply"])
    def test_a_pod_without_containers_is_refused(self, port: Cluster, write: str) -> None:
        wrong = pod("wrong")
        wrong["spec"]["containers"] = []
        with pytest.raises(InvalidManifest) as caught:
            getattr(port, write)(wrong, field_manager="test")
        assert caught.value.path == "spec.containers"

    @pytest.mark.parametrize("write", ["create", "apply"])
    def test_a_null_is_an_absent_field(self, port: Cluster, write: str) -> None:
        made = getattr(port, write)(manifests.job("one", spec__optimizeMode=None), field_manager="test")
        assert "optimizeMode" not in made["spec"]

    @pytest.mark.parametrize("name", ["Upper", "", "a b", "-a", "x" * 254])
    def test_a_malformed_name_is_refused(self, port: Cluster, name: str) -> None:
        with pytest.raises(InvalidManifest) as caught:
            port.create(secret(name), field_manager="test")
        assert caught.value.path == "metadata.name"

    @pytest.mark.parametrize("write", ["create", "apply"])
    def test_what_was_read_can_be_written_under_another_name(self, port: Cluster, write: str) -> None:
        read = port.create(manifests.job("one", status={"phase": "Running"}), field_manager="test")
        kept = {key: value for key, value in read["metadata"].items() if key not in ("uid", "resourceVersion")}
        made = getattr(port, write)({**read, "metadata": {**kept, "name": "two"}}, field_manager="test")
        assert made["spec"] == read["spec"]
        assert made["metadata"]["generation"] == 1
        assert made["metadata"]["uid"] != read["metadata"]["uid"]

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
        with pytest.raises(Conflict, match=r"data\.key \(.*\ba\b"):
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

    @pytest.mark.parametrize("named", [("resourceVersion",), ("uid",), ("uid", "resourceVersion")])
    def test_what_is_gone_since_it_was_read_isnt_made_again(self, port: Cluster, named: tuple[str, ...]) -> None:
        read = port.apply(secret("one", key="YQ=="), field_manager="a")
        port.delete(Kind.SECRET, "default", "one")
        late = secret("one", key="Yg==")
        late["metadata"] |= {field: read["metadata"][field] for field in named}
        with pytest.raises(Conflict, match=r"gone since it was read|another object|no existing object"):
            port.apply(late, field_manager="a")
        assert port.list(Kind.SECRET).items == []

    @pytest.mark.parametrize("named", [("resourceVersion",), ("uid",), ("uid", "resourceVersion")])
    def test_another_object_of_the_name_is_a_conflict(self, port: Cluster, named: tuple[str, ...]) -> None:
        read = port.apply(secret("one", key="YQ=="), field_manager="a")
        port.delete(Kind.SECRET, "default", "one")
        port.apply(secret("one"), field_manager="a")
        late = secret("one", key="Yg==")
        late["metadata"] |= {field: read["metadata"][field] for field in named}
        with pytest.raises(Conflict):
            port.apply(late, field_manager="a", force=True)
        assert not port.get(Kind.SECRET, "default", "one").get("data")

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
        rest = {"message": "so it is", "lastTransitionTime": "2026-01-31T12:00:00Z"}
        mine = {"type": "Placed", "status": "True", "reason": "Fits", **rest}
        theirs = {"type": "Trains", "status": "False", "reason": "Waits", **rest}
        self.write(port, {"conditions": [mine]}, "a")
        self.write(port, {"conditions": [theirs]}, "b")
        after = self.write(port, {"conditions": [{**theirs, "status": "True"}]}, "b")
        by_type = {one["type"]: one for one in after["status"]["conditions"]}
        assert by_type == {"Placed": mine, "Trains": {**theirs, "status": "True"}}

    def test_two_who_read_the_same_version_cant_both_write(self, port: Cluster) -> None:
        read = port.apply(manifests.job("one"), field_manager="user")
        at = read["metadata"]["resourceVersion"]
        self.write(port, {"master": {"epoch": 1}}, "convoy-master", at)
        with pytest.raises(Conflict):
            self.write(port, {"master": {"epoch": 1}}, "convoy-master", at)

    def test_one_for_an_object_that_was_replaced_is_a_conflict(self, port: Cluster) -> None:
        first = port.apply(manifests.job("one"), field_manager="user")
        port.delete(Kind.ELASTIC_JOB, "default", "one")
        port.apply(manifests.job("one"), field_manager="user")
        late = manifests.job("one", status={"phase": "Succeeded"}) | {"metadata": {"name": "one"}}
        late["metadata"]["uid"] = first["metadata"]["uid"]
        with pytest.raises(Conflict, match="another object"):
            port.apply_status(late, field_manager="convoy-operator")
        assert not port.get(Kind.ELASTIC_JOB, "default", "one").get("status")

    def test_one_with_a_uid_is_written_though_others_write_too(self, port: Cluster) -> None:
        uid = port.apply(manifests.job("one"), field_manager="user")["metadata"]["uid"]
        ended = threading.Event()

        def disturb() -> None:
            while not ended.is_set():
                self.write(port, {"master": {"epoch": time.monotonic_ns() % 1000}}, "convoy-master")
                ended.wait(0.02)

        other = threading.Thread(target=disturb)
        other.start()
        try:
            for phase in ["Pending", "Running", "Succeeded"] * 5:
                written = manifests.job("one", status={"phase": phase}) | {"metadata": {"name": "one", "uid": uid}}
                assert port.apply_status(written, field_manager="convoy-operator")["status"]["phase"] == phase
        finally:
            ended.set()
            other.join(10)

    def test_the_last_field_can_go(self, port: Cluster) -> None:
        port.apply(manifests.job("one"), field_manager="user")
        self.write(port, {"phase": "Running"}, "convoy-operator")
        assert not self.write(port, {}, "convoy-operator").get("status")

    def test_a_value_that_the_schema_refuses_changes_nothing(self, port: Cluster) -> None:
        port.apply(manifests.job("one"), field_manager="user")
        with pytest.raises(InvalidManifest) as caught:
            self.write(port, {"phase": "Levitating"}, "convoy-operator")
        assert caught.value.path == "status.phase"
        assert not port.get(Kind.ELASTIC_JOB, "default", "one").get("status")

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
        until(
            lambda: [one["metadata"]["name"] for one in port.list(Kind.SECRET).items] == ["other"], "the rest to go"
        )

    def test_what_is_created_for_an_owner_that_is_gone_doesnt_stay(self, port: Cluster) -> None:
        job = port.create(manifests.job("one"), field_manager="t")
        port.delete(Kind.ELASTIC_JOB, "default", "one")
        port.create(secret("late", job), field_manager="t")
        until(lambda: not port.list(Kind.SECRET).items, "it to go")

    def test_another_uid_isnt_deleted(self, port: Cluster) -> None:
        made = port.create(secret("one"), field_manager="t")
        with pytest.raises(NotFound, match="uid"):
            port.delete(Kind.SECRET, "default", "one", uid="another")
        port.delete(Kind.SECRET, "default", "one", uid=made["metadata"]["uid"])
        assert not port.list(Kind.SECRET).items

    @pytest.mark.parametrize("grace", [-1, -0.5])
    def test_a_grace_below_zero_is_refused(self, port: Cluster, grace: float) -> None:
        port.create(secret("one"), field_manager="t")
        with pytest.raises(InvalidInput, match="grace_seconds"):
            port.delete(Kind.SECRET, "default", "one", grace_seconds=grace)
        assert port.get(Kind.SECRET, "default", "one")


class TestDeletionOfPods:
    def test_one_that_no_node_has_goes_at_once(self, port: Cluster) -> None:
        port.create(pod("waits", "true", image="none", resources=HUGE), field_manager="t")
        port.delete(Kind.POD, "default", "waits", grace_seconds=30)
        wait_gone(port, "waits", timeout=3)

    def test_one_that_runs_is_marked_first_and_goes_when_it_has_ended(self, stage: tuple[Cluster, Node]) -> None:
        port, node = stage
        node.run(pod("polite", "sleep", "60", image="none"))
        since = port.list(Kind.POD).resource_version
        port.delete(Kind.POD, "default", "polite", grace_seconds=20)
        node.end("polite")
        changes = list(port.watch(Kind.POD, since, timeout=1))
        marked = changes[0].object["metadata"]
        assert marked["deletionGracePeriodSeconds"] == 20
        assert marked["deletionTimestamp"].endswith("Z")
        assert [one.type for one in changes[:-1]] == ["MODIFIED"] * (len(changes) - 1)
        assert changes[-1].type == "DELETED"

    def test_its_grace_can_be_cut_short_but_not_drawn_out(self, stage: tuple[Cluster, Node]) -> None:
        port, node = stage
        # Its shell outlives the first signal, so that the object is there to be looked at.
        node.run(pod("slow", "sh", "-c", "trap '' TERM; sleep 60", image="none"))
        grace = [30, 20, 25]
        seen = []
        for seconds in grace:
            port.delete(Kind.POD, "default", "slow", grace_seconds=seconds)
            seen.append(port.get(Kind.POD, "default", "slow")["metadata"]["deletionGracePeriodSeconds"])
        assert seen == [30, 20, 20]
        port.delete(Kind.POD, "default", "slow", grace_seconds=0)
        node.end("slow")

    def test_one_of_another_uid_isnt(self, stage: tuple[Cluster, Node]) -> None:
        port, node = stage
        node.run(pod("mine", "sleep", "60", image="none"))
        with pytest.raises(NotFound, match="uid"):
            port.delete(Kind.POD, "default", "mine", uid="another")
        assert "deletionTimestamp" not in port.get(Kind.POD, "default", "mine")["metadata"]
        port.delete(Kind.POD, "default", "mine", grace_seconds=0)
        node.end("mine")


def test_a_service_has_a_port(port: Cluster) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one", "namespace": "default"},
        "spec": {"ports": [{"name": "grpc", "port": 50001}]},
    }
    assert port.create(service, field_manager="t")["spec"]["ports"][0]["port"] == 50001
