"""Where a reader finds its cluster and who it says it is, also after a token was replaced. No message holds one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from convoy.core.api.errors import InvalidInput, Unusable
from convoy.core.cluster.kubernetes import KubernetesReader, access, open_reader
from convoy.core.cluster.kubernetes.connection import Connection, Limits
from convoy.core.cluster.port import Kind
from support.clock import FakeClock
from support.wire_peer import Peer, kubeconfig, whole

NOTHING = whole({"metadata": {"resourceVersion": "1"}, "items": []})
REFUSED = whole(
    {"kind": "Status", "message": "Unauthorized", "reason": "Unauthorized", "code": 401}, "401 Unauthorized"
)
SECRET = "s3cr3t-token"


def who(peer: Peer) -> list[str]:
    """Return who asked, request by request."""
    return [one.headers.get("authorization", "nobody") for one in peer.asked]


def address(peer: Peer) -> str:
    return f"http://127.0.0.1:{peer.port}"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


class TestWhereFrom:
    def test_a_path_prevails_over_the_variable_and_that_over_the_home(
        self, peer: Peer, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("given", "variable", ".kube"):
            (home / name).mkdir()
        (home / ".kube" / "config").write_text(kubeconfig(home, address(peer), token="home").read_text())
        given = kubeconfig(home / "given", address(peer), token="given")
        for expected in ("home", "variable", "given"):
            if expected == "variable":
                path = kubeconfig(home / "variable", address(peer), token="variable")
                monkeypatch.setenv("KUBECONFIG", str(path))
            peer.answer(NOTHING)
            with open_reader(given if expected == "given" else None) as reader:
                reader.list(Kind.NODE)
            assert who(peer)[-1] == f"Bearer {expected}"

    def test_a_context_is_chosen_by_name(self, peer: Peer, home: Path) -> None:
        path = kubeconfig(home, "http://127.0.0.1:1", token="wrong")
        config = json.loads(path.read_text())
        config["clusters"].append({"name": "there", "cluster": {"server": address(peer)}})
        config["users"].append({"name": "you", "user": {"token": "right"}})
        config["contexts"].append({"name": "there", "context": {"cluster": "there", "user": "you"}})
        path.write_text(json.dumps(config))
        peer.answer(NOTHING)
        with open_reader(path, "there") as reader:
            assert reader.list(Kind.NODE).resource_version == "1"
        assert who(peer) == ["Bearer right"]
        with pytest.raises(Unusable, match="nowhere"):
            open_reader(path, "nowhere")

    def test_in_a_pod_its_service_account_asks(self, peer: Peer, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from kubernetes.config import incluster_config

        token, trust = write(home / "token", "of-the-pod\n"), write(home / "ca.crt", "a certificate")
        monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(token))
        monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(trust))
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(peer.port))
        found = access.find_access()
        assert found.address == f"https://127.0.0.1:{peer.port}"
        first = found.headers()
        assert first == {"authorization": "bearer of-the-pod"}
        token.write_text("rotated")
        found.renew(first)
        assert found.headers() == {"authorization": "bearer rotated"}

    def test_without_any_configuration_it_says_where_it_looked(self, home: Path) -> None:
        with pytest.raises(Unusable, match=r"\.kube/config isn't there, and this process doesn't run in a pod"):
            open_reader()
        with pytest.raises(Unusable, match="absent isn't there"):
            open_reader(home / "absent")

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            "{",
            "apiVersion: v1\nkind: Config\n",
            json.dumps({"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "b"}}]}),
            json.dumps(
                {
                    "current-context": "a",
                    "contexts": [{"name": "a", "context": {"cluster": "c", "user": "me"}}],
                    "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
                    "users": [{"name": "me", "token": SECRET}],
                }
            ),
            f"users: [{{name: me, user: {{token: {SECRET}",
        ],
    )
    def test_a_kubeconfig_that_cant_be_used_is_named_and_not_repeated(self, home: Path, text: str) -> None:
        path = write(home / "broken", text)
        with pytest.raises(Unusable, match="broken") as caught:
            open_reader(path)
        assert SECRET not in str(caught.value)

    def test_without_the_package_it_says_what_to_install(self, home: Path) -> None:
        code = (
            "import sys; sys.modules['kubernetes'] = None\n"
            "from convoy.core.api.errors import Unusable\n"
            "from convoy.core.cluster.kubernetes import open_reader\n"
            "try: open_reader()\n"
            "except Unusable as error: print(error, error.reason)"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert "pip install 'convoy-train[kubernetes]'" in said
        assert "PackageMissing" in said

    def test_the_package_alone_brings_nothing_heavy(self) -> None:
        code = (
            "import sys, convoy.core.cluster.kubernetes; print('kubernetes' in sys.modules, 'urllib3' in sys.modules)"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        assert said.split() == ["False", "False"]


class TestWhoAsks:
    def test_a_refused_token_is_read_anew_once_and_asked_with_again(self, peer: Peer, home: Path) -> None:
        token = write(home / "token", "old\n")
        reader = KubernetesReader.open(kubeconfig(home, address(peer), tokenFile=str(token)))
        token.write_text("new\n")
        peer.answer(REFUSED)
        peer.answer(NOTHING)
        assert reader.list(Kind.NODE).items == []
        assert who(peer) == ["Bearer old", "Bearer new"]

    def test_one_that_is_refused_twice_is_told_without_it(self, peer: Peer, home: Path) -> None:
        reader = KubernetesReader.open(kubeconfig(home, address(peer), token=SECRET))
        peer.answer(REFUSED)
        peer.answer(REFUSED)
        with pytest.raises(Unusable, match="401") as caught:
            reader.list(Kind.NODE)
        assert caught.value.reason == "Unauthorized"
        assert SECRET not in repr(caught.value) + str(caught.value)
        assert len(peer.asked) == 2

    def test_a_token_file_is_read_again_after_a_minute_though_nobody_refused(
        self, peer: Peer, home: Path, clock: FakeClock
    ) -> None:
        token = write(home / "token", "old")
        found = access.find_access(kubeconfig(home, address(peer), tokenFile=str(token)), clock=clock)
        reader = KubernetesReader(Connection(found, Limits()))
        token.write_text("new")
        self.ask(peer, reader)
        clock.advance(61)
        self.ask(peer, reader)
        token.unlink()
        clock.advance(61)
        self.ask(peer, reader)  # in the middle of a rotation: what was known goes on
        assert who(peer) == ["Bearer old", "Bearer new", "Bearer new"]

    def test_a_plugin_is_asked_again_when_its_token_is_refused(self, peer: Peer, home: Path) -> None:
        credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
        answer = write(home / "answer", json.dumps({**credential, "status": {"token": "old"}}))
        plugin = {"apiVersion": credential["apiVersion"], "command": "cat", "args": [str(answer)]}
        reader = KubernetesReader.open(kubeconfig(home, address(peer), exec=plugin))
        answer.write_text(json.dumps({**credential, "status": {"token": "new"}}))
        self.ask(peer, reader)
        peer.answer(REFUSED)
        self.ask(peer, reader)
        assert who(peer) == ["Bearer old", "Bearer old", "Bearer new"]

    @pytest.mark.parametrize("token", [f"{SECRET}\nX-Other: 1", f"{SECRET}é", f"{SECRET}\x00"])
    def test_a_token_that_is_no_header_is_refused_unsaid(self, peer: Peer, home: Path, token: str) -> None:
        path = kubeconfig(home, address(peer), tokenFile=str(write(home / "token", token)))
        with pytest.raises(Unusable, match="one line of ASCII") as caught:
            KubernetesReader.open(path).list(Kind.NODE)
        assert SECRET not in str(caught.value)
        assert peer.asked == []

    @staticmethod
    def ask(peer: Peer, reader: KubernetesReader) -> None:
        peer.answer(NOTHING)
        reader.list(Kind.NODE)


def test_an_empty_namespace_isnt_taken_for_all(reader: KubernetesReader) -> None:
    with pytest.raises(InvalidInput, match="namespace of pods"):
        reader.list(Kind.POD, "")
