"""What an agent and its workers say to each other over the agent's Unix socket: one JSON object a line.

From a worker:

- ``hello``      ``local_rank``, ``pid``: it listens, so it can be asked to yield
- ``step``       ``step``: the last step that it finished (at most a few a second)
- ``speed``      one window of whole steps, with the fields of ``SpeedSample``; from process rank 0 alone
- ``restored``   ``step``: it goes on after that step
- ``checkpoint`` ``step``: that step is on disk; from process rank 0 alone
- ``yielded``    ``step``: saved there, about to exit
- ``peer_lost``  ``message``: it can't go on because another process is gone, about to exit

From the agent:

- ``yield``      ``round``: it is to end at the next step boundary
- ``loaders``    ``workers``: so many processes are to load each process's data from now on
"""

from __future__ import annotations

import json
from typing import Any

Message = dict[str, Any]

MAXIMUM = 1 << 20
"""Longest line that is read, in bytes."""


def encode(kind: str, **fields: Any) -> bytes:
    """Return one message as a line."""
    return json.dumps({"type": kind, **fields}, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message | None:
    """Return the message of a line; None if it is none."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and isinstance(message.get("type"), str) else None


class Lines:
    """Cuts a stream of bytes into lines."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Take what came; return the lines that are whole now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAXIMUM:
            self._rest = b""
        return lines
