"""The models beside the one of speed: what pods use, what they need not to be killed, what jobs begin with.

Each is the registry's champion where that is fresh, whatever took the longest to fit; without one, what the store
and the job's own readings tell at once: so a Brain that was restarted says what it said before.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.features.gradients import GRADIENT_NOISE
from convoy.brain.features.layout import Layout
from convoy.brain.features.memory import MEMORY_USAGE
from convoy.brain.features.schema import schema_of
from convoy.brain.features.startup import PREFIX, STARTUP_JOBS
from convoy.brain.models.efficiency import EfficiencyModel
from convoy.brain.models.load import LoadModel
from convoy.brain.models.registry.kinds import kind_of
from convoy.brain.plan import Needs
from convoy.brain.settings import BrainSettings
from convoy.brain.store.model_files import Registry
from convoy.core.api.errors import NotFound
from convoy.core.api.v1 import brain_pb2
from convoy.core.process.clock import Clock

_DAYS = 30
"""Of a job's readings of memory that are looked at."""
_LABELS = ("template", "image", "user", "strategy", "mode", "model", "cluster", "node_type", "dataset")
_COLUMNS = ("model_parameters", "dataset_samples", "batch_size", "learning_rate")


class Companions:
    """Keeps the models between questions. Safe to use from several threads."""

    def __init__(self, engine: Engine, clock: Clock, settings: BrainSettings, registry: Registry) -> None:
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._registry = registry
        self._kept: dict[str, tuple[str, Any]] = {}
        self._lock = threading.Lock()

    def needs(self, asked: brain_pb2.OptimizeRequest, load: LoadModel) -> Needs:
        """Return what a plan may know of a job beside its speed.

        Raises:
            Unavailable: the database can't be reached now.
        """
        start = asked.stage == brain_pb2.OptimizeRequest.START
        since = datetime.fromtimestamp(self._clock.now(), UTC) - timedelta(days=_DAYS)
        return Needs(
            load=load,
            memory=self._memory(),
            startup=self._startup() if start else None,
            usage=self._usage(asked.job.uid, since),
            described=described(asked.job) if start else pd.DataFrame(),
            oom_rate=self._settings.oom_rate,
        )

    def warm_up(self) -> None:
        """Import what takes seconds, in a thread of its own, so that no question waits for it."""
        threading.Thread(target=_libraries, name="import", daemon=True).start()

    def efficiency(self) -> EfficiencyModel:
        """Return the model of what a sample of a larger batch is worth.

        Raises:
            Unavailable: the database can't be reached now.
        """
        return self._champion("efficiency", GRADIENT_NOISE) or EfficiencyModel()

    def _usage(self, uid: str, since: datetime) -> pd.DataFrame:
        try:
            return frames.memory_usage(self._engine, uid, since=since)
        except NotFound:  # nothing was reported of it yet
            return pd.DataFrame()

    def _memory(self) -> Any:
        found = self._champion("memory", MEMORY_USAGE)
        if found is not None:
            return found
        from convoy.brain.models.memory import MemoryModel

        return MemoryModel().fit(MEMORY_USAGE.typed(pd.DataFrame()))

    def _startup(self) -> Any:
        found = self._champion("startup", STARTUP_JOBS)
        if found is not None:
            return found
        from convoy.brain.models.startup import StartupModel

        return StartupModel.of_medians(frames.startup_jobs(self._engine))

    def _champion(self, name: str, layout: Layout) -> Any | None:
        """Return the champion; None where there is none that is fresh and can be read."""
        champion = self._registry.champion(name)
        fresh = timedelta(days=self._settings.models_fresh_days)
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        if champion is None or now - champion.created_at > fresh:
            return None
        with self._lock:
            digest, model = self._kept.get(name, ("", None))
            if digest != champion.digest:
                kind = kind_of(name).model()
                found = self._registry.load(name, kind.restored, schema_hash=schema_of(layout).hash)
                if found is None:
                    return None
                model = found.model
                self._kept[name] = (champion.digest, model)
            return model


def _libraries() -> None:
    for name in ("memory", "startup"):
        kind_of(name).model()


def described(job: brain_pb2.JobDescription) -> pd.DataFrame:
    """Return a job, as its master describes it, as the start-up model reads it: one row."""
    told = {name: job.features[name] for name in _COLUMNS if name in job.features}
    others = {f"{PREFIX}{name}": value for name, value in job.features.items() if name not in _COLUMNS}
    return pd.DataFrame([{"job": job.uid, **{name: getattr(job, name) for name in _LABELS}, **told, **others}])
