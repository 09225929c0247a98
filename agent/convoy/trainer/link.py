"""A worker's line to its agent. Without an agent (a script run by itself) it says nothing and hears nothing."""

from __future__ import annotations

import os
import socket
from typing import Any

from convoy.agent import messages


class Link:
    """The worker's end. It never waits: what can't be sent at once is dropped, the agent learns the rest from the
    end.

    Attributes:
        yield_round: the round that the agent asked to end at the next step boundary, 0 if none.
        loader_workers: processes that are to load each process's data, as it said last; None: it didn't.
    """

    def __init__(self, path: str | None, local_rank: int, loader_workers: int | None = None) -> None:
        self.yield_round = 0
        self.loader_workers = loader_workers
        self._lines = messages.Lines()
        self._socket: socket.socket | None = None
        if path:
            try:
                line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
                line.connect(path)
            except OSError:  # the agent is gone, and this process will be in a moment
                line.close()
            else:
                line.setblocking(False)
                self._socket = line
                self.tell("hello", local_rank=local_rank, pid=os.getpid())

    def tell(self, kind: str, **fields: Any) -> None:
        """Send one message (see ``convoy.agent.messages``)."""
        if self._socket is not None:
            try:
                self._socket.sendall(messages.encode(kind, **fields))
            except BlockingIOError:
                pass
            except OSError:
                self.close()

    def tell_surely(self, kind: str, **fields: Any) -> None:
        """Send one message that decides what happens next; waits up to 5 s for room."""
        if self._socket is not None:
            self._socket.settimeout(5.0)
            self.tell(kind, **fields)
            if self._socket is not None:
                self._socket.setblocking(False)

    def listen(self) -> None:
        """Take in what the agent said since the last call."""
        while self._socket is not None:
            try:
                data = self._socket.recv(65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.close()
                return
            for line in self._lines.feed(data):
                message = messages.decode(line) or {}
                if message.get("type") == "yield":
                    self.yield_round = int(message.get("round", 0))
                elif message.get("type") == "loaders":
                    self.loader_workers = int(message["workers"])

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
