"""One question answered: the job's measurements from the store, the model, the plan. A model's fault is no answer of
the Brain's, but a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.plan import Decision, JobRecommendation, Prices, plan_job
from convoy.brain.serve import translate
from convoy.brain.serve.champions import Champions
from convoy.brain.serve.explained import explained
from convoy.brain.serve.knowledge import Knowledge
from convoy.brain.settings import BrainSettings
from convoy.brain.store import queries
from convoy.brain.store.model_files import Registry
from convoy.core.api.errors import ConvoyError, InvalidInput
from convoy.core.api.v1 import brain_pb2
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain")

FAILED = "ModelFailed"
"""Reason of an answer that a fault of a model prevented."""


@dataclass(frozen=True, slots=True)
class Advice:
    """An answer and what it rests on."""

    answer: JobRecommendation
    observed: pd.DataFrame
    history_rows: int
    model: dict[str, Any]
    """Where the model came from: ``Learned.origin``."""
    explanation: dict[str, Any]
    """``throughput.Explanation`` of the size that the answer names, as JSON."""


class Adviser:
    """Answers questions from one store; ``exclude_job`` is the uid of a job whose own past isn't to be its prior."""

    def __init__(
        self, engine: Engine, clock: Clock, settings: BrainSettings, *, exclude_job: str | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._prices = Prices(
            per_core=settings.price_cpu_hour, per_gib=settings.price_gib_hour, currency=settings.currency
        )
        registry = Registry(engine, settings.models_folder(), keep=settings.models_keep)
        champions = Champions(registry, timedelta(days=settings.models_fresh_days))
        self.knowledge = Knowledge(engine, clock, exclude_job=exclude_job, champions=champions)

    def advise(self, asked: brain_pb2.OptimizeRequest) -> Advice:
        """Answer a question about one job; nothing is stored.

        Raises:
            InvalidInput: the question makes no sense.
            Unavailable: the database can't be reached now.
        """
        _refuse_nonsense(asked)
        uid = asked.job.uid
        observed = frames.observed(self._engine, uid)
        hour_ago = datetime.fromtimestamp(self._clock.now(), UTC) - timedelta(hours=1)
        request = translate.to_request(
            asked,
            observed,
            horizon_seconds=self._settings.horizon_seconds,
            trial_seconds=self._settings.trial_seconds,
            changes_last_hour=queries.changes_since(self._engine, uid, hour_ago),
            changes_per_hour=self._settings.changes_per_hour,
        )
        try:
            learned = self.knowledge.learned()
            with learned.lock:
                answer = plan_job(learned.model, observed, request, self._prices)
                explanation = explained(learned.model, observed, request, answer)
        except ConvoyError:
            raise
        except Exception as error:
            log.error("a model failed", job=uid, exc_info=error)
            message = f"the model failed ({type(error).__name__}: {error}); the job keeps its size"
            failed = JobRecommendation(Decision.UNDEFINED, FAILED, message, asked.current.workers)
            return Advice(failed, observed, 0, {}, {})
        return Advice(answer, observed, learned.rows, learned.origin, explanation)


def _refuse_nonsense(asked: brain_pb2.OptimizeRequest) -> None:
    if asked.stage == brain_pb2.OptimizeRequest.UNSPECIFIED:
        raise InvalidInput("stage is unspecified: expected START or RUNNING", reason="InvalidRequest")
    counts = {
        "current.workers": asked.current.workers,
        "limits.min_workers": asked.limits.min_workers,
        "limits.max_workers": asked.limits.max_workers,
        "limits.node_unit": asked.limits.node_unit,
        "limits.global_batch": asked.limits.global_batch,
    }
    for field, value in counts.items():
        if value < 0:
            raise InvalidInput(f"{field} is {value}: expected 0 or more", reason="InvalidRequest")
    if asked.limits.max_workers < max(1, asked.limits.min_workers):
        raise InvalidInput(
            f"limits.max_workers is {asked.limits.max_workers}: expected at least {max(1, asked.limits.min_workers)}",
            reason="InvalidRequest",
        )
