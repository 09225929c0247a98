"""A line to a server on which answers are lost while requests go through: to a client that is silence."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import yaml


@dataclass
class Line:
    """Carries connections from ``port`` to a server on this machine; while ``deaf`` is set, nothing comes back."""

    port: int
    deaf: threading.Event = field(default_factory=threading.Event)

    def kubeconfig(self, of: Path, to: Path) -> Path:
        """Write a kubeconfig as another one, whose cluster is reached over this line."""
        config = yaml.safe_load(of.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        to.write_text(yaml.safe_dump(config))
        return to


@contextmanager
def line_to(server_port: int) -> Iterator[Line]:
    """Give a line to a port of this machine, until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        line = Line(listening.getsockname()[1])
        ends: list[socket.socket] = []
        threads: list[threading.Thread] = []

        def accept() -> None:
            while True:
                try:
                    near, _ = listening.accept()
                    far = socket.create_connection(("127.0.0.1", server_port))
                except OSError:
                    return
                ends.extend((near, far))
                for source, sink, back in ((near, far, False), (far, near, True)):
                    thread = threading.Thread(target=_carry, args=(source, sink, line.deaf if back else None))
                    threads.append(thread)
                    thread.start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield line
        finally:
            for one in (listening, *ends):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join(5)
            for one in ends:
                one.close()


def _carry(source: socket.socket, sink: socket.socket, deaf: threading.Event | None) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            if deaf is None or not deaf.is_set():
                sink.sendall(data)
    if deaf is None or not deaf.is_set():
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
