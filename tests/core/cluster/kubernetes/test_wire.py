"""What comes over the wire broken, cut or late: the reader ends a watch, tells an error, and never waits for ever."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.errors import ClusterError, Expired, Unavailable, Unusable
from convoy.core.cluster.kubernetes import KubernetesReader
from convoy.core.cluster.kubernetes.connection import Limits
from convoy.core.cluster.kubernetes.wire import Event, Garbled, events
from convoy.core.cluster.port import Change, Kind
from support.wire_peer import Peer, begun, chunk, kubeconfig, line, whole


def pod(name: str, version: int) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}


def watched(reader: KubernetesReader, since: str = "5", timeout: float = 10.0) -> tuple[list[Change], str]:
    """Return what a watch yields, and what it returns."""
    watch = reader.watch(Kind.POD, since, timeout=timeout)
    seen: list[Change] = []
    while True:
        try:
            seen.append(next(watch))
        except StopIteration as end:
            return seen, end.value


@given(st.lists(st.text(max_size=20), max_size=6), st.lists(st.integers(1, 200), max_size=20))
def test_events_are_the_same_however_their_bytes_are_cut(names: list[str], cuts: list[int]) -> None:
    wire = b"".join(line("ADDED", name=name) for name in names)
    pieces, at = [], 0
    for cut in cuts:
        pieces.append(wire[at : at + cut])
        at += cut
    assert list(events([*pieces, wire[at:]])) == [Event("ADDED", {"name": name}) for name in names]


@pytest.mark.parametrize("wrong", [b"{\n", b"[]\n", b'{"type": "ADDED"}\n', b'{"object": {}}\n', b"\xff\xfe\n"])
def test_a_line_that_is_no_event_is_garbled(wrong: bytes) -> None:
    came = events([line("ADDED", name="a"), wrong])
    assert next(came).type == "ADDED"
    with pytest.raises(Garbled):
        next(came)


def test_a_line_without_end_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(Unavailable, match="more than"):
        list(events(b"x" * 2**20 for _ in range(1000)))


def test_a_half_line_ends_the_watch_after_the_whole_ones(peer: Peer, reader: KubernetesReader) -> None:
    half = line("ADDED", **pod("b", 7))[:-30]
    peer.answer(begun(), chunk(line("ADDED", **pod("a", 6))), chunk(half), chunk(b""))
    seen, version = watched(reader)
    assert [one.object["metadata"]["name"] for one in seen] == ["a"]
    assert version == "6"


def test_a_connection_cut_within_a_chunk_ends_the_watch(peer: Peer, reader: KubernetesReader) -> None:
    peer.answer(begun(), chunk(line("ADDED", **pod("a", 6))), b"ffff\r\n{")
    assert watched(reader) == ([Change("ADDED", pod("a", 6))], "6")


def test_a_garbled_line_ends_the_watch(peer: Peer, reader: KubernetesReader) -> None:
    peer.answer(
        begun(), chunk(line("ADDED", **pod("a", 6)) + b"<html>\n" + line("ADDED", **pod("b", 7))), silent=True
    )
    assert watched(reader) == ([Change("ADDED", pod("a", 6))], "6")


def test_silence_ends_the_watch_long_before_its_time(peer: Peer, reader: KubernetesReader) -> None:
    peer.answer(begun(), chunk(line("ADDED", **pod("a", 6))), silent=True)
    begin = time.monotonic()
    assert watched(reader, timeout=30.0) == ([Change("ADDED", pod("a", 6))], "6")
    assert 0.35 <= time.monotonic() - begin < 5


def test_a_bookmark_moves_the_version_and_is_no_change(peer: Peer, reader: KubernetesReader) -> None:
    bookmark = {"kind": "Pod", "apiVersion": "v1", "metadata": {"resourceVersion": "90"}}
    peer.answer(begun(), chunk(line("BOOKMARK", **bookmark)), chunk(b""))
    assert watched(reader) == ([], "90")
    assert "allowWatchBookmarks=true" in peer.asked[0].target
    assert "resourceVersion=5" in peer.asked[0].target


@pytest.mark.parametrize("how", ["event", "status"])
def test_410_is_expired_whether_as_an_event_or_as_the_answer(peer: Peer, reader: KubernetesReader, how: str) -> None:
    gone = {"kind": "Status", "status": "Failure", "message": "too old resource version: 5 (9)", "code": 410}
    if how == "event":
        peer.answer(begun(), chunk(line("ERROR", **gone)), chunk(b""))
    else:
        peer.answer(whole(gone, "410 Gone"))
    with pytest.raises(Expired, match="too old resource version"):
        watched(reader)


def test_an_error_event_of_another_kind_is_that_error(peer: Peer, reader: KubernetesReader) -> None:
    trouble = {"kind": "Status", "message": "etcdserver: leader changed", "reason": "InternalError", "code": 500}
    peer.answer(begun(), chunk(line("ERROR", **trouble)), chunk(b""))
    with pytest.raises(Unavailable, match="leader changed") as caught:
        watched(reader)
    assert caught.value.reason == "InternalError"


def test_closing_the_reader_ends_a_watch_that_waits(peer: Peer, home: Path) -> None:
    peer.answer(begun(), chunk(line("ADDED", **pod("a", 6))), silent=True)
    reader = KubernetesReader.open(kubeconfig(home, f"http://127.0.0.1:{peer.port}"), limits=Limits(silence=60))
    watch = reader.watch(Kind.POD, "5", timeout=60)
    assert next(watch).type == "ADDED"
    begin = time.monotonic()
    threading.Timer(0.2, reader.close).start()
    assert list(watch) == []
    assert time.monotonic() - begin < 5
    with pytest.raises(Unavailable, match="closed"):
        reader.list(Kind.POD)


def listed(*names: str, version: str = "9", more: str = "") -> dict[str, Any]:
    items = [{"metadata": {"name": name, "managedFields": [{"manager": "m"}]}} for name in names]
    return {"kind": "PodList", "metadata": {"resourceVersion": version, "continue": more}, "items": items}


GONE = whole(
    {"kind": "Status", "reason": "Expired", "message": "The provided continue parameter is too old"}, "410 Gone"
)


def test_a_paged_list_that_expires_midway_begins_again_once(peer: Peer, reader: KubernetesReader) -> None:
    peer.answer(whole(listed("a", more="token-1")))
    peer.answer(GONE)
    peer.answer(whole(listed("a", version="12", more="token-2")))
    peer.answer(whole(listed("b", version="12")))
    found = reader.list(Kind.POD)
    assert [item["metadata"] for item in found.items] == [{"name": "a"}, {"name": "b"}]
    assert found.resource_version == "12"
    assert [("continue=token" in one.target) for one in peer.asked] == [False, True, False, True]


def test_a_paged_list_that_expires_twice_is_expired(peer: Peer, reader: KubernetesReader) -> None:
    for _ in range(2):
        peer.answer(whole(listed("a", more="token")))
        peer.answer(GONE)
    with pytest.raises(Expired, match="too old"):
        reader.list(Kind.POD)
    assert peer.answers == []


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (whole("<html>welcome</html>"), Unavailable, "other than a JSON object"),
        (whole("[1]"), Unavailable, "other than a JSON object"),
        (whole("upstream is away", "502 Bad Gateway"), Unavailable, "upstream is away"),
        (whole("slow down", "429 Too Many Requests"), Unavailable, "too busy"),
        (whole("404 page not found\n", "404 Not Found"), Unusable, "serves no pods"),
        (whole("moved", "302 Found"), ClusterError, "answers 302"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", Unavailable, "broke"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Unavailable, "broke"),
        (b"", Unavailable, "broke"),
    ],
)
def test_what_isnt_a_list_is_told(
    peer: Peer, reader: KubernetesReader, answer: bytes, error: type[Exception], message: str
) -> None:
    peer.answer(answer)
    with pytest.raises(error, match=message):
        reader.list(Kind.POD)


def test_a_server_that_takes_the_request_and_says_nothing_is_unavailable(
    peer: Peer, reader: KubernetesReader
) -> None:
    peer.answer(b"", silent=True)
    begin = time.monotonic()
    with pytest.raises(Unavailable, match="no answer within 1 s"):
        reader.get(Kind.POD, "default", "a")
    assert time.monotonic() - begin < 5
    assert peer.asked[0].target == "/api/v1/namespaces/default/pods/a"
