"""A watch's bytes as events: one JSON object a line. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from convoy.core.api.errors import Unavailable

_LONGEST_LINE = 32 * 1024 * 1024
"""Many times what an API server stores of one object."""


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR, and its object as it came."""

    type: str
    object: dict[str, Any]


class Garbled(Exception):
    """A line that is no event: something on the way cut it or wrote into it."""


def events(pieces: Iterable[bytes]) -> Iterator[Event]:
    """Yield the events of the whole lines; what comes after the last line's end is not one yet.

    Raises:
        Garbled: a whole line is no event.
        Unavailable: a line doesn't end.
    """
    rest = b""
    for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            if line.strip():
                yield _event(line)
        if len(rest) > _LONGEST_LINE:
            raise Unavailable(f"a watch sent a line of more than {_LONGEST_LINE} bytes: is that an API server?")


def _event(line: bytes) -> Event:
    try:
        decoded = json.loads(line)
    except ValueError as error:
        raise Garbled(str(error)) from None
    if not isinstance(decoded, dict) or not isinstance(decoded.get("object"), dict) or "type" not in decoded:
        raise Garbled("expected an object with type and object")
    return Event(str(decoded["type"]), decoded["object"])
