"""One event at a time: decide, persist what is durable of it, then act. Everything that a master does passes here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from convoy.core.process import logs
from convoy.core.process.clock import Clock
from convoy.core.process.crashpoint import crash_point
from convoy.master.decide.actions import Action, Explain
from convoy.master.decide.core import Decided, decide
from convoy.master.decide.events import Event
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import State, dump
from convoy.master.durable import STATE, StateStore
from convoy.master.undivided import undivided

log = logs.get("master.decisions")

Hand = Callable[[Any], None]
"""Carries one kind of action out; it doesn't block, and doesn't fail."""


class Conductor:
    """Holds the state. ``hands`` carry out actions, by their type."""

    def __init__(self, state: State, policy: Policy, store: StateStore, executor: Executor, clock: Clock) -> None:
        self.state = state
        self.policy = policy
        self.clock = clock
        self.hands: dict[type[Any], Hand] = {}
        self._store = store
        self._executor = executor
        self._turn = asyncio.Lock()

    async def post(self, event: Event) -> Decided:
        """Take an event in; return when what followed from it is persisted and under way.

        A caller that is cancelled meanwhile (its call was given up) doesn't part the state from what was persisted.

        Raises:
            Unusable: the state couldn't be written; nothing was changed.
        """
        return await undivided(self._take_in(event))

    async def _take_in(self, event: Event) -> Decided:
        async with self._turn:
            decided = decide(self.state, event, self.clock.now(), self.policy)
            if decided.state.job is not self.state.job and decided.state.job != self.state.job:
                await self.persist(STATE, dump(decided.state.job))
            self.state = decided.state
            self.act(decided.actions)
            return decided

    async def persist(self, kind: str, document: Mapping[str, Any]) -> None:
        """Save a document in the state's thread.

        Raises:
            Unusable: it couldn't be written.
        """
        await asyncio.get_running_loop().run_in_executor(self._executor, self._store.save, kind, document)

    def act(self, actions: tuple[Action, ...]) -> None:
        """Have actions carried out, in order."""
        if actions:
            crash_point("master.before-actions")
        for action in actions:
            if isinstance(action, Explain):
                _log(action)
            hand = self.hands.get(type(action))
            if hand is not None:
                hand(action)


def _log(action: Explain) -> None:
    where = {"node": action.node} if action.node else {}
    log.info(
        action.message,
        reason=action.reason,
        round=action.round,
        step=action.step,
        **where,
        evidence=action.evidence,
    )
