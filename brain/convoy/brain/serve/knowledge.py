"""What was learned from all jobs, kept between questions and learned anew when there is more to learn from.

It is learned from imported history and from jobs that are over: what a running job shows is evidence of its own, and
not its prior as well. Learning takes longer than answering. So an answer waits for it only where nothing was learned
yet or somebody imported history; a job's end has it done in the background.

Where the registry has a champion that is fresh and fits, that is used instead: it was tested, and there is nothing to
learn.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.models import LoadModel, ThroughputModel
from convoy.brain.models.registry.facts import frame_digest
from convoy.brain.serve.champions import LAST_IMPORT, Champions, Usable
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import HistoryObservation, Job
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain")

LOAD_JOBS = 200
"""That the use of cores and memory is learned from."""
SILENT_SECONDS = 600.0
"""A job of which nothing was reported for that long is over, even if nobody said so."""


@dataclass(frozen=True, slots=True)
class _Sources:
    """What is cheap to ask and changes when there is more to learn from."""

    imported: tuple[int, int]
    jobs_over: int
    last_import: datetime | None
    champion: Usable


@dataclass(frozen=True, slots=True)
class Learned:
    """A fitted model, and what it was fitted to. Hold ``lock`` while asking it: it keeps draws between questions."""

    model: ThroughputModel
    load: LoadModel
    """Of the same history, as far as it was read; it asks ``model``."""
    lock: threading.Lock
    rows: int
    sources: _Sources
    origin: dict[str, Any]
    """Where the model came from, as JSON: ``from`` is ``champion`` (with its version) or ``store`` (and why)."""

    @property
    def tested(self) -> bool:
        """Return whether it is the registry's."""
        return bool(self.origin["from"] == "champion")


def _loads(history: pd.DataFrame) -> pd.DataFrame:
    """Return rows that tell of load, of the jobs that told last: more of them take long and add little."""
    read = history[[name for name in history.columns if name.endswith(("_used", "_used_max"))]].notna().any(axis=1)
    told = history[read]
    latest = told.groupby("job")["observed_at"].max().sort_values(na_position="first").index[-LOAD_JOBS:]
    return told[told["job"].isin(latest)]


class Knowledge:
    """Keeps the model. Safe to use from several threads."""

    def __init__(
        self, engine: Engine, clock: Clock, *, exclude_job: str | None = None, champions: Champions | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._exclude = exclude_job
        self._champions = champions
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
            if known is not None and known.tested and known.sources.champion == sources.champion:
                self._learned = replace(known, sources=sources)  # a job's end changes nothing of what was tested
                return self._learned
            learned = self._of_champion(sources) or self._of_store(sources)
            self._learned = learned
            return learned

    def _of_champion(self, sources: _Sources) -> Learned | None:
        """Return the registry's model; None where there is none to use."""
        if self._champions is None or not sources.champion.digest:
            return None
        begun = self._clock.monotonic()
        found = self._champions.load(self._now(), sources.last_import)
        if found is None:
            return None
        origin = {
            "from": "champion",
            "version": found.version.number,
            "digest": found.version.digest,
            "fitted_at": found.facts.created_at.isoformat(),
            "refused": list(found.refused),
        }
        seconds = round(self._clock.monotonic() - begun, 3)
        log.info("using the champion", version=found.version.number, rows=found.facts.rows, jobs=found.facts.jobs,
                 fitted_at=origin["fitted_at"], seconds=seconds)  # fmt: skip
        load = LoadModel().fit(pd.DataFrame(), speed=found.model)
        return Learned(found.model, load, threading.Lock(), found.facts.rows, sources, origin)

    def _of_store(self, sources: _Sources) -> Learned:
        begun = self._clock.monotonic()
        history = frames.history(self._engine, self._exclude, over_since=self._silent_since())
        why = sources.champion.why or "ChampionUnusable"
        model = ThroughputModel().fit(history)
        seconds = round(self._clock.monotonic() - begun, 3)
        log.info("learned from history", rows=len(history), jobs=model.history_jobs, seconds=seconds, why=why)
        load = LoadModel().fit(_loads(history), speed=model)
        origin = {"from": "store", "why": why, "history": frame_digest(history)[:16]}
        return Learned(model, load, threading.Lock(), len(history), sources, origin)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.now(), UTC)

    def _silent_since(self) -> datetime:
        return self._now() - timedelta(seconds=SILENT_SECONDS)

    def _sources(self) -> _Sources:
        imported = sa.select(sa.func.count(), sa.func.coalesce(sa.func.max(HistoryObservation.id), 0))
        over = sa.select(sa.func.count()).select_from(Job).where(frames.is_over(self._silent_since()))
        with reading(self._engine) as connection:
            count, last = connection.execute(imported).one()
            jobs_over = connection.execute(over).scalar_one()
            last_import = connection.execute(LAST_IMPORT).scalar_one()
        if self._champions is None:
            champion = Usable("", "NoRegistry")
        else:
            champion = self._champions.usable(self._now(), last_import)
        return _Sources((int(count), int(last)), jobs_over, last_import, champion)
