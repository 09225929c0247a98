"""The store's maintenance, every so often, by the Brain itself: one that runs alone needs no other program for it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from sqlalchemy.engine import Engine

from convoy.brain.settings import BrainSettings
from convoy.brain.store.maintain import maintain
from convoy.core.api.errors import ConvoyError
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain")

_FIRST_AFTER = 300.0
"""A Brain that has just started has better things to do, and one that is always restarted shouldn't begin anew."""


class Upkeep:
    """Maintains a store in a thread of its own until told to stop."""

    def __init__(self, engine: Engine, clock: Clock, settings: BrainSettings, stop: threading.Event) -> None:
        self._engine = engine
        self._clock = clock
        self._every = settings.maintain_every_seconds
        self._kept = settings.retention()
        self._stop = stop

    def start(self) -> None:
        """Begin, unless the settings leave it to others."""
        if self._every:
            threading.Thread(target=self._run, name="upkeep", daemon=True).start()

    def _run(self) -> None:
        pause = min(_FIRST_AFTER, self._every)
        while not self._stop.wait(pause):
            pause = self._every
            try:
                done = maintain(self._engine, datetime.fromtimestamp(self._clock.now(), UTC), self._kept)
            except ConvoyError as error:
                log.warning("the store wasn't maintained", reason=error.reason, why=str(error))
            else:
                if done.hours or done.removed or done.orphans:
                    log.info("store maintained", hours=done.hours, removed=done.removed, orphans=done.orphans)
