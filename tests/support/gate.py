"""A gate in front of an API server: closed, its callers can't reach the server, and nobody else notices."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import yaml


class Gate:
    """Hands bytes on between its port and the server's, while it is open."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._guard = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open = True
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Break all connections, and hang up on who calls."""
        with self._guard:
            self._open = False
            pairs, self._pairs = self._pairs, []
        for one in (end for pair in pairs for end in pair):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def open(self) -> None:
        """Let callers through again."""
        with self._guard:
            self._open = True

    def end(self) -> None:
        """Close it for good."""
        self.close()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                with self._guard:
                    if not self._open:
                        caller.close()
                        continue
                    pair = (caller, socket.create_connection(self._server))
                    self._pairs.append(pair)
                for source, sink in (pair, pair[::-1]):
                    threading.Thread(target=_hand_on, args=(source, sink), daemon=True).start()


def _hand_on(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def gated(kubeconfig: Path, folder: Path) -> Iterator[tuple[Gate, Path]]:
    """Give a gate before a kubeconfig's server, and a kubeconfig whose users go through it."""
    config = yaml.safe_load(kubeconfig.read_text())
    address = urlsplit(config["clusters"][0]["cluster"]["server"])
    gate = Gate(str(address.hostname), address.port or 443)
    for cluster in config["clusters"]:
        cluster["cluster"] |= {
            "server": f"{address.scheme}://127.0.0.1:{gate.port}",
            "tls-server-name": str(address.hostname),
        }
    path = folder / "gated-kubeconfig"
    path.write_text(yaml.safe_dump(config))
    try:
        yield gate, path
    finally:
        gate.end()
