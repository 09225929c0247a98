"""What a real API server says to writers: who may, sizes, wrong fields; and that writes of many don't get lost."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from kubernetes import client

from convoy.core.api.errors import (
    AlreadyExists,
    Conflict,
    ConvoyError,
    InvalidManifest,
    TooLarge,
    Unusable,
)
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes import KubernetesCluster
from convoy.core.cluster.kubernetes.access import find_access
from convoy.core.cluster.kubernetes.connection import Connection, Limits
from convoy.core.cluster.kubernetes.resources import Question
from convoy.core.cluster.port import Kind
from servers.api_server import ApiServer
from servers.objects import connected
from support import manifests
from support.disposable import disposable_api_server
from support.raw_objects import raw_objects
from support.small_objects import pod, secret
from support.waiting import until

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with disposable_api_server(tmp_path_factory.mktemp("api-server")) as started:
        yield started


@pytest.fixture
def cluster(server: ApiServer) -> Iterator[KubernetesCluster]:
    with KubernetesCluster.open(server.kubeconfig) as opened:
        yield opened
    with raw_objects(server.kubeconfig) as hands:
        hands.clear()


class TestRights:
    def test_who_may_not_write_learns_which_rule_is_missing(self, server: ApiServer) -> None:
        with KubernetesCluster.open(server.kubeconfig, "reader") as reader:
            asked = [
                (lambda: reader.create(pod(), field_manager="t"), "create pods one", 'verbs: ["create"]'),
                (lambda: reader.apply(pod(), field_manager="t"), "patch pods one", 'verbs: ["patch"]'),
                (
                    lambda: reader.apply_status(manifests.job("one", status={"phase": "Running"}), field_manager="t"),
                    "patch elasticjobs/status one",
                    'resources: ["elasticjobs/status"], verbs: ["patch"]',
                ),
                (lambda: reader.delete(Kind.POD, "default", "one"), "delete pods one", 'verbs: ["delete"]'),
            ]
            for ask, what, rule in asked:
                with pytest.raises(Unusable) as caught:
                    ask()
                assert caught.value.reason == "Forbidden"
                assert what in str(caught.value)
                assert rule in str(caught.value)


class TestSizes:
    def test_more_than_a_request_may_hold(self, cluster: KubernetesCluster) -> None:
        huge = manifests.job("huge", container__env=[{"name": f"V{n}", "value": "x" * 100_000} for n in range(35)])
        for write in (cluster.create, cluster.apply):
            with pytest.raises(TooLarge, match="limit is 3145728"):
                write(huge, field_manager="t")

    def test_more_than_an_object_may_hold(self, cluster: KubernetesCluster) -> None:
        big = manifests.job("big", container__env=[{"name": f"V{n}", "value": "x" * 100_000} for n in range(18)])
        for write in (cluster.create, cluster.apply):
            with pytest.raises(TooLarge, match=r"ElasticJob default/big: .*too large"):
                write(big, field_manager="t")

    def test_more_than_a_field_may_hold(self, cluster: KubernetesCluster) -> None:
        with pytest.raises(InvalidManifest, match="may not be more than") as caught:
            cluster.create(secret("big", key=base64.b64encode(bytes(1_200_000)).decode()), field_manager="t")
        assert caught.value.path == "data"


class TestWrongManifests:
    def test_all_fields_are_named(self, cluster: KubernetesCluster) -> None:
        wrong = pod("wrong", restartPolicy="Sometimes", hostname="Not A Host")
        wrong["spec"]["containers"][0] |= {"name": "Main", "image": ""}
        with pytest.raises(InvalidManifest) as caught:
            cluster.create(wrong, field_manager="t")
        for field in ("spec.containers[0].name", "spec.containers[0].image", "spec.restartPolicy", "spec.hostname"):
            assert f"{field}: " in str(caught.value)

    @pytest.mark.parametrize(
        ("changed", "path"),
        [
            ({"containers": "none"}, "spec.containers"),
            ({"speed": 3}, "spec.speed"),
            ({"restartPolicy": ["Never"]}, "spec.restartPolicy"),
            ({"nodeSelector": {"a": 1}}, "spec.nodeSelector"),
            ({"env": [{"name": "A", "value": 1}]}, "spec.containers"),
        ],
    )
    @pytest.mark.parametrize("write", ["create", "apply"])
    def test_the_field_of_a_pod_is_named_by_either_verb(
        self, cluster: KubernetesCluster, write: str, changed: dict[str, Any], path: str
    ) -> None:
        with pytest.raises(InvalidManifest) as caught:
            getattr(cluster, write)(pod("wrong", **changed), field_manager="t")
        assert caught.value.path.startswith(path)

    @pytest.mark.parametrize("wrong", [True, ["a"], {"a": 1}])
    @pytest.mark.parametrize("made", [pod, manifests.job])
    def test_the_field_of_metadata_is_named(
        self, cluster: KubernetesCluster, made: Callable[[str], Manifest], wrong: Any
    ) -> None:
        manifest = made("wrong")
        manifest["metadata"]["labels"] = wrong
        with pytest.raises(InvalidManifest) as caught:
            cluster.create(manifest, field_manager="t")
        assert caught.value.path.startswith("metadata.labels")

    def test_a_running_pods_command_cant_be_changed(self, cluster: KubernetesCluster) -> None:
        cluster.apply(pod(), field_manager="t")
        changed = pod()
        changed["spec"]["containers"][0]["command"] = ["other"]
        with pytest.raises(InvalidManifest, match="may not change fields other than") as caught:
            cluster.apply(changed, field_manager="t")
        assert caught.value.path == "spec"

    @pytest.mark.parametrize("write", ["create", "apply"])
    def test_no_value_of_a_secret_is_repeated(self, cluster: KubernetesCluster, write: str) -> None:
        for data in ({"key": ["v3ry-s3cr3t"]}, {"key": {"v3ry-s3cr3t": "a"}}, {"key": "v3ry-s3cr3t"}, "v3ry-s3cr3t"):
            with pytest.raises(InvalidManifest) as caught:
                getattr(cluster, write)({**secret("one"), "data": data}, field_manager="t")
            assert "v3ry" not in str(caught.value) + repr(caught.value)

    def test_a_dry_run_checks_and_keeps_nothing(self, cluster: KubernetesCluster) -> None:
        assert cluster.create(pod(), field_manager="t", dry_run=True)["spec"]["schedulerName"] == "default-scheduler"
        with pytest.raises(InvalidManifest):
            cluster.create(pod(image=3), field_manager="t", dry_run=True)
        assert cluster.list(Kind.POD).items == []


def test_of_many_who_write_over_what_they_read_each_one_counts(cluster: KubernetesCluster) -> None:
    def count(_: int) -> None:
        while True:
            read = cluster.get(Kind.CONFIG_MAP, "default", "count")
            more = {**read, "data": {"number": str(int(read["data"]["number"]) + 1)}}
            try:
                cluster.apply(more, field_manager="t", force=True)
            except Conflict:
                continue
            return

    first = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "count"}, "data": {"number": "0"}}
    cluster.create(first, field_manager="t")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(40)))
    assert cluster.get(Kind.CONFIG_MAP, "default", "count")["data"] == {"number": "40"}


def test_of_many_who_write_a_status_by_uid_none_is_turned_away(cluster: KubernetesCluster) -> None:
    uid = cluster.create(manifests.job("one"), field_manager="t")["metadata"]["uid"]

    def write(number: int) -> None:
        job = manifests.job("one", status={"phase": ["Pending", "Running"][number % 2]})
        job["metadata"]["uid"] = uid
        cluster.apply_status(job, field_manager="t")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))


def test_of_many_who_create_the_same_one_does(cluster: KubernetesCluster) -> None:
    def create(number: int) -> str:
        try:
            cluster.create(secret("one", key=base64.b64encode(str(number).encode()).decode()), field_manager="t")
        except AlreadyExists:
            return "there"
        return "made"

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(create, range(16)))
    assert sorted(made) == ["made"] + ["there"] * 15


def test_who_is_sent_away_comes_again(server: ApiServer) -> None:
    """The API server's own 429: a priority level that does one request at a time and lets nobody wait."""

    def read(_: int) -> list[Manifest]:
        return [item for _ in range(4) for item in reader.list(Kind.POD).items]

    with (
        connected(server.kubeconfig) as connection,
        one_at_a_time(connection),
        KubernetesCluster.open(server.kubeconfig, "reader") as reader,
        ThreadPoolExecutor(12) as pool,
    ):
        assert list(pool.map(read, range(12))) == [[]] * 12
        assert sent_away(server) > 0


def sent_away(server: ApiServer) -> float:
    """Return how many requests the priority level rejected, by the API server's own count."""
    metrics = Connection(find_access(server.kubeconfig), Limits()).read(Question("/metrics")).decode()
    name = "apiserver_flowcontrol_rejected_requests_total{"
    rows = [line for line in metrics.splitlines() if line.startswith(name) and 'flow_schema="narrow"' in line]
    return sum(float(row.split()[-1]) for row in rows)


@contextmanager
def one_at_a_time(connection: client.ApiClient) -> Iterator[None]:
    """Send requests of the user ``reader`` away with 429 while another of them is done."""
    api: Any = client.FlowcontrolApiserverV1Api(connection)
    limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level = {"type": "Limited", "limited": {**limited, "limitResponse": {"type": "Reject"}}}
    api.create_priority_level_configuration({"metadata": {"name": "narrow"}, "spec": level})
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": True}
    who = [{"kind": "User", "user": {"name": "reader"}}]
    spec = {
        "priorityLevelConfiguration": {"name": "narrow"},
        "matchingPrecedence": 2,
        "rules": [{"subjects": who, "resourceRules": [everything]}],
    }
    api.create_flow_schema({"metadata": {"name": "narrow"}, "spec": spec})
    until(lambda: api.read_flow_schema("narrow").status.conditions, "the priority level to be in force")
    yield
    api.delete_flow_schema("narrow")
    api.delete_priority_level_configuration("narrow")


def test_an_unknown_answer_is_still_an_error_of_ours(cluster: KubernetesCluster) -> None:
    with pytest.raises(ConvoyError):
        cluster.apply({**secret("one"), "apiVersion": "v7"}, field_manager="t")
