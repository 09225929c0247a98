"""What a server that is too busy asks for: a pause, within the time of the call; and what is never sent twice."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from convoy.core.api.errors import ConvoyError, NotFound, Unavailable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes import KubernetesCluster
from convoy.core.cluster.kubernetes.connection import Limits
from convoy.core.cluster.port import Kind
from support.wire_peer import Peer, begun, chunk, kubeconfig, whole

SECRET: Manifest = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "one", "namespace": "default"},
    "data": {"key": "dmVyeS1zM2NyM3Q="},
}
STORED = {**SECRET, "metadata": {**SECRET["metadata"], "uid": "u", "resourceVersion": "7"}}
BUSY = {"kind": "Status", "reason": "TooManyRequests", "message": "please try again later", "code": 429}


def busy(status: str = "429 Too Many Requests", after: str = "0") -> bytes:
    return whole(BUSY, status, Retry_After=after)


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable", "500 Internal Server Error"])
def test_a_write_that_is_to_come_again_later_does_with_the_same_body(
    peer: Peer, cluster: KubernetesCluster, status: str
) -> None:
    for _ in range(3):
        peer.answer(busy(status))
    peer.answer(whole(STORED, "201 Created"))
    assert cluster.create(SECRET, field_manager="t") == STORED
    assert [one.method for one in peer.asked] == ["POST"] * 4
    assert {one.body for one in peer.asked} == {peer.asked[0].body}
    assert json.loads(peer.asked[0].body)["data"] == SECRET["data"]


def test_the_pause_is_as_long_as_was_asked_for(peer: Peer, cluster: KubernetesCluster) -> None:
    peer.answer(busy(after="1"))
    peer.answer(whole(STORED))
    begin = time.monotonic()
    cluster.get(Kind.SECRET, "default", "one")
    assert 1.0 <= time.monotonic() - begin < 2.5


def test_a_pause_beyond_the_calls_time_is_told_instead(peer: Peer, cluster: KubernetesCluster) -> None:
    peer.answer(busy(after="30"))
    begin = time.monotonic()
    with pytest.raises(Unavailable, match="too busy") as caught:
        cluster.apply(SECRET, field_manager="t")
    assert caught.value.retry_after == 30
    assert time.monotonic() - begin < 1


def test_pauses_end_with_the_calls_time(peer: Peer, home: Path) -> None:
    for _ in range(50):
        peer.answer(busy())
    config = kubeconfig(home, f"http://127.0.0.1:{peer.port}", token="t")
    with KubernetesCluster.open(config, limits=Limits(whole=0.5)) as cluster, pytest.raises(Unavailable):
        cluster.list(Kind.POD)
    assert 3 <= len(peer.asked) <= 6


def test_closing_ends_a_pause(peer: Peer, home: Path) -> None:
    peer.answer(busy(after="30"))
    config = kubeconfig(home, f"http://127.0.0.1:{peer.port}", token="t")
    cluster = KubernetesCluster.open(config, limits=Limits(whole=60))
    threading.Timer(0.3, cluster.close).start()
    begin = time.monotonic()
    with pytest.raises(Unavailable, match="closed"):
        cluster.list(Kind.POD)
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize(
    "answer",
    [
        whole("away", "503 Service Unavailable"),
        whole("away", "503 Service Unavailable", Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"),
        whole(BUSY, "429 Too Many Requests"),
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{",
    ],
)
def test_a_write_that_may_have_been_done_isnt_sent_again(
    peer: Peer, cluster: KubernetesCluster, answer: bytes
) -> None:
    peer.answer(answer)
    with pytest.raises(Unavailable) as caught:
        cluster.create(SECRET, field_manager="t")
    assert len(peer.asked) == 1
    assert caught.value.retry_after is None


def test_what_is_refused_for_good_isnt_asked_again(peer: Peer, cluster: KubernetesCluster) -> None:
    gone = {"kind": "Status", "reason": "NotFound", "message": "not found", "details": {"name": "one"}}
    peer.answer(whole(gone, "404 Not Found", Retry_After="0"))
    with pytest.raises(NotFound):
        cluster.delete(Kind.SECRET, "default", "one")
    assert len(peer.asked) == 1


def test_an_answer_that_trickles_ends_with_the_calls_time(peer: Peer, home: Path) -> None:
    peer.answer(begun(), *(chunk(b" ") for _ in range(40)), every=0.2)
    config = kubeconfig(home, f"http://127.0.0.1:{peer.port}", token="t")
    begin = time.monotonic()
    with (
        KubernetesCluster.open(config, limits=Limits(whole=1.0)) as cluster,
        pytest.raises(Unavailable, match="took over 1 s"),
    ):
        cluster.get(Kind.POD, "default", "one")
    assert 1.0 <= time.monotonic() - begin < 2.5


def test_no_message_repeats_a_secret(peer: Peer, cluster: KubernetesCluster) -> None:
    quoted = 'Secret "one" is invalid: data[key]: Invalid value: "very-s3cr3t": is odd'
    causes = [{"field": "data[key]", "message": 'Invalid value: "very-s3cr3t": is odd'}]
    answers = [
        whole({"reason": "Invalid", "message": quoted, "details": {"causes": causes}}, "422 Unprocessable Entity"),
        whole({"message": "failed to create typed patch object (a/b; /v1, Kind=Secret): .data: expected map, got "
               "&{[very-s3cr3t]}"}, "500 Internal Server Error"),
    ]  # fmt: skip
    for answer in answers:
        peer.answer(answer)
        with pytest.raises(ConvoyError) as caught:
            cluster.apply(SECRET, field_manager="t")
        assert "s3cr3t" not in str(caught.value) + repr(caught.value)
        assert "data" in str(caught.value)
