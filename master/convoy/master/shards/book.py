"""The data sets of a job: their ledgers, persisted before a shard is handed out or taken back, and who waits."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Any

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import CorruptState, DeadlineMissed, InvalidInput, NotFound, StaleIncarnation
from convoy.master.durable import DATASETS
from convoy.master.keys import Persist
from convoy.master.shards import ledger as ledgers
from convoy.master.shards.ledger import Held, Ledger, Range, Spec
from convoy.master.undivided import undivided


class Book:
    """Ledgers by data set."""

    def __init__(self, persist: Persist, document: Mapping[str, Any] | None = None) -> None:
        try:
            self._ledgers = {name: ledgers.from_json(value) for name, value in (document or {}).items()}
        except InvalidInput as error:
            raise CorruptState(f"data sets of the job: {error}; move the file away to start anew") from error
        self._persist = persist
        self._turn = asyncio.Lock()
        self._changed = asyncio.Condition()

    async def register(self, spec: Spec) -> None:
        """Make a data set known; the same again changes nothing.

        Raises:
            InvalidInput: it can't be, or a set of that name is another one.
        """
        spec.check()
        await undivided(self._register(spec))

    async def _register(self, spec: Spec) -> None:
        async with self._turn:
            known = self._ledgers.get(spec.name)
            if known is None:
                await self._put(Ledger(spec))
            elif known.spec != spec:
                raise InvalidInput(f"data set {spec.name!r}: known as {known.spec}, now told to be {spec}")

    async def take(self, name: str, caller: Envelope, timeout: float) -> Range | None:
        """Hand the next shard out; None when the set is exhausted.

        A process may hold several shards, one for each of its calls. A call whose answer was lost is to be repeated
        under its sequence number: it gets the shard that it was given, also from the next master. Under another
        number it gets another one, and the first is held until its holder finishes it or is lost.

        Raises:
            NotFound: no such set.
            DeadlineMissed: others still hold the last shards.
        """
        holder = Held(caller.sender, caller.incarnation, caller.sequence)
        end = asyncio.get_running_loop().time() + max(0.0, timeout)
        while True:
            before, shard = await undivided(self._hand_out(name, holder))
            if shard is not None:
                return shard
            if before.exhausted:
                return None
            try:
                async with asyncio.timeout_at(end), self._changed:
                    while self._ledgers.get(name) is before:
                        await self._changed.wait()
            except TimeoutError:
                holders = sorted({held.holder for held in before.doing.values()})
                raise DeadlineMissed(
                    f"data set {name!r}: the last {len(before.doing)} shards are still held by {', '.join(holders)}"
                ) from None

    async def _hand_out(self, name: str, holder: Held) -> tuple[Ledger, Range | None]:
        async with self._turn:
            before = self._get(name)
            after, shard = ledgers.take(before, holder)
            if after is not before:
                await self._put(after)
            return before, shard

    async def finish(self, name: str, shard: int, caller: Envelope, *, failed: bool) -> None:
        """Take a shard back from the process that holds it; one that isn't out changes nothing.

        Raises:
            NotFound: no such set.
            StaleIncarnation: another process holds it: the caller was given up, and its shard handed out again.
        """
        await undivided(self._finish(name, shard, caller, failed))

    async def _finish(self, name: str, shard: int, caller: Envelope, failed: bool) -> None:
        async with self._turn:
            before = self._get(name)
            held = before.doing.get(shard)
            if held is not None and (held.holder, held.incarnation) != (caller.sender, caller.incarnation):
                raise StaleIncarnation(
                    f"data set {name!r}: shard {shard} is held by {held.holder} now, not by this process of "
                    f"{caller.sender or 'nobody'}; what it did of it is done again"
                )
            after = ledgers.finish(before, shard, failed=failed)
            if after is not before:
                await self._put(after)

    async def release(self, lost: Collection[str]) -> None:
        """Take back all that lost nodes held."""
        await undivided(self._release(lost))

    async def _release(self, lost: Collection[str]) -> None:
        async with self._turn:
            for name, before in list(self._ledgers.items()):
                after = before
                for holder in lost:
                    after = ledgers.release(after, holder)
                if after is not before:
                    await self._put(after, name)

    def holders(self) -> set[str]:
        """Return who holds shards."""
        return {held.holder for ledger in self._ledgers.values() for held in ledger.doing.values()}

    def position(self, name: str) -> str:
        """Return a set's position, for a checkpoint's manifest.

        Raises:
            NotFound: no such set.
        """
        return ledgers.position(self._get(name))

    async def restore(self, name: str, position: str) -> None:
        """Go back to a saved position.

        Raises:
            NotFound: no such set.
            InvalidInput: the position is another set's, or none.
        """
        await undivided(self._restore(name, position))

    async def _restore(self, name: str, position: str) -> None:
        async with self._turn:
            await self._put(ledgers.restore(self._get(name), position))

    def _get(self, name: str) -> Ledger:
        found = self._ledgers.get(name)
        if found is None:
            raise NotFound(f"data set {name!r}: register it first", reason="UnknownDataset")
        return found

    async def _put(self, ledger: Ledger, name: str | None = None) -> None:
        after = {**self._ledgers, name or ledger.spec.name: ledger}
        await self._persist(DATASETS, {known: ledgers.to_json(value) for known, value in after.items()})
        async with self._changed:
            self._ledgers = after
            self._changed.notify_all()
