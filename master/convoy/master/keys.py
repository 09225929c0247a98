"""The key-value store that processes of a job share. What is acknowledged is on disk; an addition counts once."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import CorruptState, DeadlineMissed, InvalidInput, NotFound
from convoy.master.durable import KEYS
from convoy.master.undivided import undivided

MOST_BYTES = 16 * 1024 * 1024
"""The most that all keys' names and values hold together."""
MOST_KEYS = 16 * 1024
"""The most keys; each costs as much again in the state file."""

_REMEMBERED_CALLERS = 1024

Persist = Callable[[str, Mapping[str, Any]], Awaitable[None]]


class Keys:
    """Keys and values. ``persist`` saves a document before a change is acknowledged."""

    def __init__(self, persist: Persist, document: Mapping[str, Any] | None = None) -> None:
        try:
            stored = {
                name: base64.b64decode(value, validate=True)
                for name, value in (document or {}).get("values", {}).items()
            }
            self._added: dict[str, list[int]] = {
                process: [int(part) for part in last] for process, last in (document or {}).get("added", {}).items()
            }
        except (ValueError, TypeError) as error:
            raise CorruptState(f"keys of the job: {error}; move the file away to start without them") from error
        self._persist = persist
        self._values: dict[str, bytes] = stored
        self._turn = asyncio.Lock()
        self._changed = asyncio.Condition()

    async def set(self, key: str, value: bytes) -> None:
        """Give the key a value.

        Raises:
            InvalidInput: the key is empty, or the store would hold more than ``MOST_BYTES`` or ``MOST_KEYS``.
        """
        await undivided(self._set(key, value))

    async def add(self, key: str, amount: int, caller: Envelope) -> int:
        """Add to a number (0 where there is none) and return the sum; a call that is repeated counts once.

        Raises:
            InvalidInput: the value isn't a number.
        """
        return await undivided(self._add(key, amount, caller))

    async def delete(self, key: str) -> None:
        """Forget the key; nothing where it isn't there."""
        await undivided(self._delete(key))

    async def _set(self, key: str, value: bytes) -> None:
        async with self._turn:
            await self._replace({**self._values, key: value}, key)

    async def _add(self, key: str, amount: int, caller: Envelope) -> int:
        async with self._turn:
            process = f"{caller.sender} {caller.incarnation}"
            last = self._added.get(process)
            if caller.sequence and last is not None and last[0] == caller.sequence:
                return last[1]
            try:
                total = int(self._values.get(key, b"0")) + amount
            except ValueError:
                raise InvalidInput(f"key {key!r}: its value isn't a whole number, so nothing can be added") from None
            before = self._added
            kept = list(before.items())[-_REMEMBERED_CALLERS:]
            self._added = {**dict(kept), process: [caller.sequence, total]}
            try:
                await self._replace({**self._values, key: str(total).encode()}, key)
            except BaseException:
                self._added = before
                raise
            return total

    async def _delete(self, key: str) -> None:
        async with self._turn:
            if key in self._values:
                await self._replace({name: value for name, value in self._values.items() if name != key}, key)

    async def get(self, key: str, timeout: float) -> bytes:
        """Return the key's value, waiting for it.

        Raises:
            NotFound: it isn't there, and no wait was asked for.
            DeadlineMissed: it didn't come.
        """
        if key not in self._values and timeout <= 0:
            raise NotFound(f"key {key!r}: it isn't set")
        try:
            async with asyncio.timeout(timeout), self._changed:
                await self._changed.wait_for(lambda: key in self._values)
        except TimeoutError:
            raise DeadlineMissed(f"key {key!r}: nobody set it within {timeout:g} s") from None
        return self._values[key]

    async def _replace(self, values: dict[str, bytes], key: str) -> None:
        if not key:
            raise InvalidInput("key: expected a name, got an empty one")
        if key in values:  # a deletion is never refused
            _check_room(values, key)
        document = {
            "values": {name: base64.b64encode(value).decode() for name, value in values.items()},
            "added": self._added,
        }
        await self._persist(KEYS, document)
        async with self._changed:
            self._values = values
            self._changed.notify_all()


def _check_room(values: Mapping[str, bytes], key: str) -> None:
    size = sum(len(name.encode()) + len(value) for name, value in values.items())
    for held, most, unit in ((size, MOST_BYTES, "bytes"), (len(values), MOST_KEYS, "keys")):
        if held > most:
            raise InvalidInput(
                f"key {key[:64]!r}: the job's store would hold {held} {unit}, at most {most} fit; delete keys that "
                "aren't needed any more"
            )
