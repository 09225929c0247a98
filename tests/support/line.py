"""A line to a server on this machine that goes deaf or is cut: its clients notice, nobody else does."""

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
    """Carries connections from ``port`` to a server on this machine.

    While ``deaf`` is set, requests go through and nothing comes back: to a client that is silence.
    """

    port: int
    deaf: threading.Event = field(default_factory=threading.Event)
    ends: list[socket.socket] = field(default_factory=list)
    _cut: threading.Event = field(default_factory=threading.Event)

    def cut(self) -> None:
        """Break all connections, and hang up on who calls."""
        self._cut.set()
        for one in self.ends:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        """Let callers through again."""
        self._cut.clear()

    @property
    def is_cut(self) -> bool:
        """Whether callers are hung up on."""
        return self._cut.is_set()

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
        threads: list[threading.Thread] = []

        def accept() -> None:
            while True:
                try:
                    near, _ = listening.accept()
                    if line.is_cut:
                        near.close()
                        continue
                    far = socket.create_connection(("127.0.0.1", server_port))
                except OSError:
                    return
                line.ends.extend((near, far))
                for source, sink, back in ((near, far, False), (far, near, True)):
                    thread = threading.Thread(target=_carry, args=(source, sink, line.deaf if back else None))
                    threads.append(thread)
                    thread.start()

        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield line
        finally:
            for one in (listening, *line.ends):
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join(5)
            for one in line.ends:
                one.close()


def _carry(source: socket.socket, sink: socket.socket, deaf: threading.Event | None) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            if deaf is None or not deaf.is_set():
                sink.sendall(data)
    if deaf is None or not deaf.is_set():
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)
