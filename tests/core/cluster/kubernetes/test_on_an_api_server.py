"""What a real API server says to readers: thousands of objects in pages, refusals by name, pods' output."""

from __future__ import annotations

import ssl
import threading
import tracemalloc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from convoy.core.api.errors import Unavailable, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes import KubernetesReader
from convoy.core.cluster.kubernetes.reader import PAGE
from convoy.core.cluster.port import Kind
from servers.api_server import ApiServer
from support.disposable import disposable_api_server
from support.raw_objects import RawObjects, raw_objects

pytestmark = pytest.mark.servers

MANY = 3_000


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with disposable_api_server(tmp_path_factory.mktemp("api-server")) as started:
        yield started


@pytest.fixture
def hands(server: ApiServer) -> Iterator[RawObjects]:
    with raw_objects(server.kubeconfig) as given:
        yield given


@pytest.fixture
def reader(server: ApiServer) -> Iterator[KubernetesReader]:
    with KubernetesReader.open(server.kubeconfig) as opened:
        yield opened


def secret(name: str, **data: str) -> Manifest:
    metadata = {"name": name, "namespace": "default", "annotations": {"filler": "x" * 2_000}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}


def test_thousands_come_in_pages_whole_and_in_little_memory(
    server: ApiServer, hands: RawObjects, reader: KubernetesReader
) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: hands.create(secret(f"s-{number:04}")), range(MANY)))
    sizes, names = [], []
    tracemalloc.start()
    for page in reader.pages(Kind.SECRET):
        sizes.append(len(page.items))
        names += [item["metadata"]["name"] for item in page.items]
    _, peak_of_pages = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    whole = reader.list(Kind.SECRET)
    _, peak_of_list = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sizes == [PAGE] * (MANY // PAGE)
    assert names == [f"s-{number:04}" for number in range(MANY)] == [one["metadata"]["name"] for one in whole.items]
    assert peak_of_pages < peak_of_list / 2


class TestRefusals:
    def test_who_may_do_nothing_learns_which_rule_is_missing(self, server: ApiServer) -> None:
        with KubernetesReader.open(server.kubeconfig, "nobody") as nobody:
            for ask, what, rule in self.asked(nobody):
                with pytest.raises(Unusable) as caught:
                    ask()
                assert caught.value.reason == "Forbidden"
                assert what in str(caught.value)
                assert rule in str(caught.value)
                assert 'User "nobody"' in str(caught.value)

    @staticmethod
    def asked(reader: KubernetesReader) -> list[tuple[Callable[[], Any], str, str]]:
        return [
            (
                lambda: reader.list(Kind.POD),
                "list pods in all namespaces",
                'a ClusterRole with apiGroups: [""], resources: ["pods"], verbs: ["list"]',
            ),
            (
                lambda: reader.list(Kind.ELASTIC_JOB, "default"),
                "list elasticjobs in namespace default",
                'a Role in namespace default with apiGroups: ["elastic.iml.github.io"], resources: ["elasticjobs"]',
            ),
            (
                lambda: reader.get(Kind.NODE, "", "n1"),
                "get nodes n1",
                'a ClusterRole with apiGroups: [""], resources: ["nodes"], verbs: ["get"]',
            ),
            (
                lambda: next(reader.watch(Kind.EVENT, "1", timeout=1)),
                "watch events in all namespaces",
                'resources: ["events"], verbs: ["watch"]',
            ),
        ]

    def test_the_rights_of_a_monitor_are_enough_to_monitor(self, server: ApiServer) -> None:
        with KubernetesReader.open(server.kubeconfig, "reader") as monitor:
            for kind in (Kind.ELASTIC_JOB, Kind.SCALE_PLAN, Kind.POD, Kind.NODE, Kind.EVENT):
                listing = monitor.list(kind)
                assert list(monitor.watch(kind, listing.resource_version, timeout=0.1)) == []
            with pytest.raises(Unusable, match="secrets"):
                monitor.list(Kind.SECRET)

    def test_a_certificate_of_a_stranger_isnt_trusted(self, server: ApiServer, home: Path) -> None:
        text = server.kubeconfig.read_text()
        stranger = home / "untrusting"
        stranger.write_text("\n".join(line for line in text.splitlines() if "certificate-authority" not in line))
        with KubernetesReader.open(stranger) as reader, pytest.raises(Unusable, match="isn't trusted") as caught:
            reader.list(Kind.POD)
        assert caught.value.reason == "CertificateNotTrusted"


class Kubelet(ThreadingHTTPServer):
    """What the API server asks for a container's log: it answers with the path that it was asked for."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(("127.0.0.1", 0), _Answers)
        certificates = server.folder / "certificates"
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificates / "server.crt", certificates / "server.key")
        self.socket = context.wrap_socket(self.socket, server_side=True)


class _Answers(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = f"{self.path}\nüber\n".encode() + b"\xff\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # quiet
        return


class TestLogs:
    @pytest.fixture
    def kubelet(self, server: ApiServer) -> Iterator[Kubelet]:
        with Kubelet(server) as serving:
            thread = threading.Thread(target=serving.serve_forever)
            thread.start()
            yield serving
            serving.shutdown()
            thread.join(5)

    def test_of_a_pod_that_runs_they_are_its_default_containers(
        self, hands: RawObjects, reader: KubernetesReader, kubelet: Kubelet
    ) -> None:
        self.node(hands, "n1", kubelet.server_port)
        self.pod(hands, "two", "n1", annotations={"kubectl.kubernetes.io/default-container": "side"})
        assert reader.logs("default", "two") == "/containerLogs/default/two/side\nüber\n\ufffd\n"
        assert reader.logs("default", "two", tail=7).startswith("/containerLogs/default/two/side?tailLines=7\n")
        self.pod(hands, "plain", "n1")
        assert reader.logs("default", "plain").startswith("/containerLogs/default/plain/main\n")

    def test_of_a_pod_that_hasnt_begun_they_are_empty(self, hands: RawObjects, reader: KubernetesReader) -> None:
        hands.create(self.spec("waits"))
        assert reader.logs("default", "waits") == ""

    def test_of_a_pod_whose_node_is_away_they_are_unavailable(
        self, hands: RawObjects, reader: KubernetesReader
    ) -> None:
        self.node(hands, "away", 1)
        self.pod(hands, "lost", "away")
        with pytest.raises(Unavailable, match="get pods/log lost in namespace default"):
            reader.logs("default", "lost")

    @staticmethod
    def spec(name: str, node: str | None = None, **metadata: Any) -> Manifest:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", **metadata},
            "spec": {
                "containers": [{"name": one, "image": "none"} for one in ("main", "side")],
                **({"nodeName": node} if node else {}),
            },
        }

    def pod(self, hands: RawObjects, name: str, node: str, **metadata: Any) -> None:
        hands.create(self.spec(name, node, **metadata))
        states: list[Manifest] = [
            {
                "name": one,
                "state": {"running": {}},
                "ready": True,
                "restartCount": 0,
                "image": "none",
                "imageID": "none",
            }
            for one in ("main", "side")
        ]
        hands.set_status(Kind.POD, "default", name, phase="Running", containerStatuses=states)

    @staticmethod
    def node(hands: RawObjects, name: str, port: int) -> None:
        hands.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        hands.set_status(
            Kind.NODE,
            "",
            name,
            addresses=[{"type": "InternalIP", "address": "127.0.0.1"}],
            daemonEndpoints={"kubeletEndpoint": {"Port": port}},
        )
