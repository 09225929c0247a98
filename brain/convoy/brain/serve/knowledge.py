"""What was learned from all jobs, kept between questions and learned anew when there is more to learn from.

It is learned from imported history and from jobs that are over: what a running job shows is evidence of its own, and
not its prior as well. Learning takes longer than answering. So an answer waits for it only where nothing was learned
yet or somebody imported history; a job's end has it done in the background.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.models import ThroughputModel
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import HistoryObservation, Job
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain")

SILENT_SECONDS = 600.0
"""A job of which nothing was reported for that long is over, even if nobody said so."""


@dataclass(frozen=True, slots=True)
class _Sources:
    """What is cheap to ask and changes when there is more to learn from."""

    imported: tuple[int, int]
    jobs_over: int


@dataclass(frozen=True, slots=True)
class Learned:
    """A fitted model, and what it was fitted to. Hold ``lock`` while asking it: it keeps draws between questions."""

    model: ThroughputModel
    lock: threading.Lock
    rows: int
    sources: _Sources


class Knowledge:
    """Keeps the model. Safe to use from several threads."""

    def __init__(self, engine: Engine, clock: Clock, *, exclude_job: str | None = None) -> None:
        self._engine = engine
        self._clock = clock
        self._exclude = exclude_job
        self._learned: Learned | None = None
        self._learning = threading.Lock()

    def learned(self) -> Learned:
        """Return what is known now.

        Raises:
            Unavailable: the database can't be reached now.
        """
        sources = self._sources()
        known = self._learned
        if known is None or known.sources.imported != sources.imported:
            return self._learn(sources)
        if known.sources != sources and not self._learning.locked():
            self.learn_in_background()
        return known

    def learn_in_background(self) -> None:
        """Learn in a thread of its own, so that the next question finds an answer."""
        threading.Thread(target=self._refresh, name="learn", daemon=True).start()

    def _refresh(self) -> None:
        try:
            self._learn(self._sources())
        except Exception as error:  # the next question meets it again, and answers for it
            log.warning("learning from history failed", error=str(error))

    def _learn(self, sources: _Sources) -> Learned:
        with self._learning:
            known = self._learned
            if known is not None and known.sources == sources:
                return known  # another thread was quicker
            begun = self._clock.monotonic()
            history = frames.history(self._engine, self._exclude, over_since=self._silent_since())
            learned = Learned(ThroughputModel().fit(history), threading.Lock(), len(history), sources)
            seconds = round(self._clock.monotonic() - begun, 3)
            log.info("learned from history", rows=learned.rows, jobs=learned.model.history_jobs, seconds=seconds)
            self._learned = learned
            return learned

    def _silent_since(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now() - SILENT_SECONDS, UTC)

    def _sources(self) -> _Sources:
        imported = sa.select(sa.func.count(), sa.func.coalesce(sa.func.max(HistoryObservation.id), 0))
        over = sa.select(sa.func.count()).select_from(Job).where(frames.is_over(self._silent_since()))
        with reading(self._engine) as connection:
            count, last = connection.execute(imported).one()
            return _Sources((int(count), int(last)), connection.execute(over).scalar_one())
