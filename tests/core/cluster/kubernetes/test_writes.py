"""What a real API server says to writers: its rules, its sizes, who may; and that writes of many don't get lost."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kubernetes import client

from convoy.core.api.errors import (
    AlreadyExists,
    Conflict,
    ConvoyError,
    InvalidManifest,
    NotFound,
    Refused,
    TooLarge,
    Unavailable,
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
from support.waiting import until

pytestmark = pytest.mark.servers


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with disposable_api_server(tmp_path_factory.mktemp("api-server"), controllers=True) as started:
        yield started


@pytest.fixture
def core(server: ApiServer) -> Iterator[Any]:
    with connected(server.kubeconfig) as connection:
        yield client.CoreV1Api(connection)


@pytest.fixture
def cluster(server: ApiServer) -> Iterator[KubernetesCluster]:
    with KubernetesCluster.open(server.kubeconfig) as opened:
        yield opened
    with raw_objects(server.kubeconfig) as hands:
        hands.clear()


def secret(name: str, **data: str) -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def pod(name: str = "one", namespace: str = "default", **spec: Any) -> Manifest:
    container: Manifest = {"name": "main", "image": "none"}
    container |= {key: spec.pop(key) for key in ("resources", "env") if key in spec}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


@contextmanager
def a_namespace(core: Any, name: str) -> Iterator[str]:
    core.create_namespace({"metadata": {"name": name}})
    until(lambda: core.list_namespaced_service_account(name).items, "the namespace's service account")
    yield name
    core.delete_namespace(name)


class TestRules:
    """Admission's answer is 403, as that of missing rights is; what it says reaches the caller whole."""

    def test_a_quota(self, core: Any, cluster: KubernetesCluster) -> None:
        with a_namespace(core, "with-quota") as namespace:
            core.create_namespaced_resource_quota(
                namespace, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}}
            )
            until(lambda: core.read_namespaced_resource_quota("few", namespace).status.used, "the quota's count")
            cluster.create(pod("one", namespace), field_manager="t")
            for write in (cluster.create, cluster.apply):
                with pytest.raises(Refused, match="exceeded quota: few, requested: pods=1, used: pods=1") as caught:
                    write(pod("two", namespace), field_manager="t")
                assert caught.value.reason == "QuotaExceeded"

    def test_a_limit_range(self, core: Any, cluster: KubernetesCluster) -> None:
        with a_namespace(core, "with-limits") as namespace:
            limit = {"type": "Container", "max": {"memory": "1Gi"}}
            core.create_namespaced_limit_range(namespace, {"metadata": {"name": "most"}, "spec": {"limits": [limit]}})
            big = pod("big", namespace, resources={"limits": {"memory": "2Gi"}})

            said = until(lambda: refused(cluster, big), "the limit range to be known")
            assert "maximum memory usage per Container is 1Gi, but limit is 2Gi" in said

    def test_a_pod_security_standard(self, core: Any, cluster: KubernetesCluster) -> None:
        with a_namespace(core, "restricted") as namespace:
            label = {"pod-security.kubernetes.io/enforce": "restricted"}
            core.patch_namespace(namespace, {"metadata": {"labels": label}})
            with pytest.raises(Refused) as caught:
                cluster.create(pod("loose", namespace), field_manager="t")
            for field in ("allowPrivilegeEscalation", "capabilities.drop", "runAsNonRoot", "seccompProfile.type"):
                assert field in str(caught.value)

    def test_a_priority_class_that_there_isnt(self, cluster: KubernetesCluster) -> None:
        with pytest.raises(Refused, match="no PriorityClass with name urgent was found") as caught:
            cluster.create(pod(priorityClassName="urgent"), field_manager="t")
        assert caught.value.reason == "Refused"

    def test_a_namespace_that_ends(self, core: Any, cluster: KubernetesCluster) -> None:
        with a_namespace(core, "ending") as namespace:
            cluster.create(pod("lasts", namespace, nodeName="n1"), field_manager="t")
        try:
            with pytest.raises(Refused, match="it is being terminated") as caught:
                cluster.create(pod("late", namespace), field_manager="t")
            assert caught.value.reason == "NamespaceTerminating"
        finally:
            core.delete_namespaced_pod("lasts", namespace, grace_period_seconds=0)

    def test_a_namespace_that_there_isnt(self, cluster: KubernetesCluster) -> None:
        for write in (cluster.create, cluster.apply):
            with pytest.raises(NotFound, match="there is no namespace nowhere"):
                write(pod("one", "nowhere"), field_manager="t")

    def test_a_webhook(self, server: ApiServer, cluster: KubernetesCluster) -> None:
        with connected(server.kubeconfig) as connection, a_webhook(server, connection) as webhook:
            said = until(lambda: refused(cluster, secret("odd")), "the webhook to be asked")
            assert "denied the request: no secrets on Mondays" in said
            webhook.shutdown()
            webhook.server_close()
            with pytest.raises(Unavailable, match="failed calling webhook"):
                cluster.create(secret("odd"), field_manager="t")

    def test_a_policy(self, server: ApiServer, cluster: KubernetesCluster) -> None:
        with connected(server.kubeconfig) as connection, a_policy(connection):
            said = until(lambda: refused(cluster, pod("odd")), "the policy to be known", timeout=30)
            assert "denied request: pods are not odd" in said


def refused(cluster: KubernetesCluster, manifest: Manifest) -> str:
    """Return what the cluster refuses an object with, ``""`` where it would take it."""
    try:
        cluster.create(manifest, field_manager="t", dry_run=True)
    except Refused as error:
        return str(error)
    return ""


@contextmanager
def a_policy(connection: client.ApiClient) -> Iterator[None]:
    """Forbid pods of the name ``odd``."""
    api: Any = client.AdmissionregistrationV1Api(connection)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    check = {"expression": "object.metadata.name != 'odd'", "message": "pods are not odd"}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [check]}
    api.create_validating_admission_policy({"metadata": {"name": "even"}, "spec": spec})
    binding = {"policyName": "even", "validationActions": ["Deny"]}
    api.create_validating_admission_policy_binding({"metadata": {"name": "even"}, "spec": binding})
    yield
    api.delete_validating_admission_policy_binding("even")
    api.delete_validating_admission_policy("even")


@contextmanager
def a_webhook(server: ApiServer, connection: client.ApiClient) -> Iterator[ThreadingHTTPServer]:
    """Run a webhook that denies the creation of Secrets, and have the API server ask it."""
    webhook = ThreadingHTTPServer(("127.0.0.1", 0), _Denies)
    certificates = server.folder / "certificates"
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
    webhook.socket = context.wrap_socket(webhook.socket, server_side=True)
    thread = threading.Thread(target=webhook.serve_forever)
    thread.start()
    trust = base64.b64encode((certificates / "ca.crt").read_bytes()).decode()
    api: Any = client.AdmissionregistrationV1Api(connection)
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["secrets"], "operations": ["CREATE"]}
    asked = {
        "name": "mondays.example.org",
        "rules": [rule],
        "clientConfig": {"url": f"https://127.0.0.1:{webhook.server_port}/", "caBundle": trust},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    api.create_validating_webhook_configuration({"metadata": {"name": "mondays"}, "webhooks": [asked]})
    try:
        yield webhook
    finally:
        api.delete_validating_webhook_configuration("mondays")
        webhook.shutdown()
        webhook.server_close()
        thread.join(5)


class _Denies(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        denied = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "no secrets on Mondays"}}
        body = json.dumps({**review, "response": denied}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # quiet
        return


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
