"""Directives on their way to agents: the last one of each rank, and who is to hear of a new one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from convoy.core.api.v1 import master_pb2
from convoy.master.decide.actions import Direction, SetDirective

_EPOCH_BITS = 32


class DirectiveHub:
    """Numbers directives so that those of a later master are higher, and hands each agent the last one."""

    def __init__(self, epoch: int) -> None:
        self._version = epoch << _EPOCH_BITS
        self._last: dict[int, master_pb2.Directive] = {}
        self._news: dict[int, asyncio.Event] = {}

    def publish(self, action: SetDirective) -> None:
        """Make a directive the rank's last one."""
        self._last[action.rank] = self._number(action.direction)
        self.wake(action.rank)

    def wake(self, rank: int) -> None:
        """Have those who listen for the rank look again."""
        self._news.pop(rank, asyncio.Event()).set()

    def last(self, rank: int, otherwise: Direction) -> master_pb2.Directive:
        """Return the rank's last directive; ``otherwise`` becomes it where there was none."""
        if rank not in self._last:
            self._last[rank] = self._number(otherwise)
        return self._last[rank]

    async def follow(self, rank: int, otherwise: Direction) -> AsyncIterator[master_pb2.Directive]:
        """Yield the rank's directive now and at each change, without end; of several changes at once the last."""
        sent = 0
        while True:
            news = self._news.setdefault(rank, asyncio.Event())
            directive = self.last(rank, otherwise)
            if directive.version != sent:
                sent = directive.version
                yield directive
            else:
                await news.wait()

    def _number(self, direction: Direction) -> master_pb2.Directive:
        self._version += 1
        return master_pb2.Directive(
            version=self._version,
            action=direction.order.value,
            round=direction.round,
            reason=direction.reason,
            message=direction.message,
            exit_code=direction.exit_code,
            loader_workers=direction.loaders,
        )
