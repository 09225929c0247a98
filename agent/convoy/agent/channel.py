"""The agent's end of its workers' lines: a Unix socket in a private directory (see ``convoy.agent.messages``)."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from convoy.agent import messages

Heed = Callable[[int, messages.Message], None]
_LONGEST = 100
"""Bytes that a Unix socket's path may have, with some room."""


class Channel:
    """Listens to the workers; ``heed(pid, message)`` is called for each message of a worker that said hello."""

    def __init__(self, heed: Heed) -> None:
        self._heed = heed
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self._server: asyncio.Server | None = None
        self.directory = Path(tempfile.mkdtemp(prefix="convoy-agent-"))
        if len(str(self.directory)) + len("/agent") > _LONGEST:
            self.directory.rmdir()
            self.directory = Path(tempfile.mkdtemp(prefix="convoy-agent-", dir="/tmp"))

    @property
    def path(self) -> str:
        """Where the socket is."""
        return str(self.directory / "agent")

    async def open(self) -> None:
        """Start listening."""
        self._server = await asyncio.start_unix_server(self._serve, self.path, limit=messages.MAXIMUM)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pid: int | None = None
        try:
            while line := await reader.readline():
                message = messages.decode(line)
                if message is None:
                    continue
                if message["type"] == "hello":
                    pid = int(message["pid"])
                    self._writers[pid] = writer
                if pid is not None:
                    self._heed(pid, message)
        except (ConnectionResetError, ValueError):  # gone, or a line beyond all bounds
            pass
        finally:
            if pid is not None and self._writers.get(pid) is writer:
                del self._writers[pid]
            writer.close()

    def tell(self, pid: int, kind: str, **fields: Any) -> bool:
        """Send a worker one message (see ``convoy.agent.messages``); False where it doesn't listen."""
        writer = self._writers.get(pid)
        if writer is None:
            return False
        writer.write(messages.encode(kind, **fields))
        return True

    async def close(self) -> None:
        """Stop listening and remove the directory."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers.values()):
            writer.close()
        await asyncio.sleep(0)
        with contextlib.suppress(OSError):
            shutil.rmtree(self.directory)
