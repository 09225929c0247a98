"""What was learned from all jobs, kept between questions and learned anew when there is more to learn from.

Learning takes longer than answering. So an answer waits for it only where nothing was learned yet or somebody
imported history; a job's end, or mere age, has it done in the background.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.models import ThroughputModel
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import HistoryObservation, Job
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain")


@dataclass(frozen=True, slots=True)
class _Sources:
    """What is cheap to ask and changes when there is more to learn from."""

    imported: tuple[int, int]
    ended_jobs: int


@dataclass(frozen=True, slots=True)
class Learned:
    """A fitted model, and what it was fitted to. Hold ``lock`` while asking it: it keeps draws between questions."""

    model: ThroughputModel
    lock: threading.Lock
    rows: int
    sources: _Sources
    at: float


class Knowledge:
    """Keeps the model. Safe to use from several threads."""

    def __init__(self, engine: Engine, clock: Clock, *, refit_seconds: float) -> None:
        self._engine = engine
        self._clock = clock
        self._refit_seconds = refit_seconds
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
        old = self._clock.monotonic() - known.at > self._refit_seconds
        if (old or known.sources != sources) and not self._learning.locked():
            threading.Thread(target=self._refresh, args=(sources,), name="learn", daemon=True).start()
        return known

    def warm_up(self) -> None:
        """Learn in the background, so that the first question finds an answer."""
        threading.Thread(target=self._refresh, args=(None,), name="learn", daemon=True).start()

    def _refresh(self, sources: _Sources | None) -> None:
        try:
            self._learn(sources if sources is not None else self._sources(), force=sources is not None)
        except Exception as error:  # the next question meets it again, and answers for it
            log.warning("learning from history failed", error=str(error))

    def _learn(self, sources: _Sources, *, force: bool = False) -> Learned:
        with self._learning:
            known = self._learned
            if known is not None and known.sources == sources and not force:
                return known  # another thread was quicker
            begun = self._clock.monotonic()
            history = frames.history(self._engine)
            learned = self._fit(history, sources)
            log.info(
                "learned from history",
                rows=learned.rows,
                jobs=learned.model.history_jobs,
                seconds=round(learned.at - begun, 3),
            )
            self._learned = learned
            return learned

    def _fit(self, history: pd.DataFrame, sources: _Sources) -> Learned:
        model = ThroughputModel().fit(history)
        return Learned(model, threading.Lock(), len(history), sources, self._clock.monotonic())

    def _sources(self) -> _Sources:
        imported = sa.select(sa.func.count(), sa.func.coalesce(sa.func.max(HistoryObservation.id), 0))
        ended = sa.select(sa.func.count()).select_from(Job).where(Job.state.in_(("Succeeded", "Failed")))
        with reading(self._engine) as connection:
            count, last = connection.execute(imported).one()
            return _Sources((int(count), int(last)), connection.execute(ended).scalar_one())
