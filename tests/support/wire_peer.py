"""A peer that answers HTTP requests with scripted bytes: what an API server rarely says, and a proxy too often."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Asked:
    """One request that came."""

    target: str
    headers: dict[str, str]
    method: str = "GET"
    body: bytes = b""


@dataclass
class Peer:
    """Gives each request the next answer of ``answers``: pieces of bytes, after which it hangs up or keeps silent."""

    port: int
    answers: list[tuple[list[bytes], bool, float]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    def answer(self, *pieces: bytes, silent: bool = False, every: float = 0.0) -> None:
        """Have the next request answered; ``silent`` keeps the connection open and sends nothing more.

        Between two pieces ``every`` seconds pass; without it they come as one.
        """
        self.answers.append(([*pieces] if every else [b"".join(pieces)], silent, every))


def whole(body: Any, status: str = "200 OK", **headers: str) -> bytes:
    """Return a complete answer: JSON, or text as it is; headers with ``_`` for ``-``."""
    data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{more}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data


def begun() -> bytes:
    """Return the head of an answer in chunks, as a watch's is."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Return one chunk; of no data it is the last."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def line(type_: str, **object_: Any) -> bytes:
    """Return one event of a watch."""
    return json.dumps({"type": type_, "object": object_}).encode() + b"\n"


def kubeconfig(folder: Path, server: str, **user: Any) -> Path:
    """Write a kubeconfig for one user and return its path."""
    path = folder / "kubeconfig"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "current-context": "here",
    }
    path.write_text(json.dumps(config))
    return path


@contextmanager
def serve() -> Iterator[Peer]:
    """Run a peer on a port of the kernel's choice until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        peer = Peer(listening.getsockname()[1])
        ended = threading.Event()
        threads: list[threading.Thread] = []

        def accept() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                thread = threading.Thread(target=_serve_one, args=(connection, peer, ended))
                threads.append(thread)
                thread.start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield peer
        finally:
            ended.set()
            listening.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join(5)


def _serve_one(connection: socket.socket, peer: Peer, ended: threading.Event) -> None:
    with connection, suppress(OSError):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = connection.recv(65536)
            if not piece:
                return
            head += piece
        head, _, body = head.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        headers = dict(one.split(": ", 1) for one in rest if ": " in one)
        while len(body) < int(headers.get("Content-Length", "0")):
            body += connection.recv(65536)
        method, target, _ = first.split()
        peer.asked.append(Asked(target, headers, method, body))
        pieces, silent, every = peer.answers.pop(0)
        for piece in pieces:
            connection.sendall(piece)
            ended.wait(every)
        if silent:
            ended.wait(60)
