"""What a real API server's admission says to writers: under 403, as missing rights are told, or any other status."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from kubernetes import client

from convoy.core.api.errors import NotFound, Refused, Unavailable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes import KubernetesCluster
from servers.api_server import ApiServer
from servers.objects import connected
from support.disposable import disposable_api_server
from support.raw_objects import raw_objects
from support.small_objects import pod, secret
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
