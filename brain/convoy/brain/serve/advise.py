"""One question answered: the job's measurements from the store, the model, the plan. A model's fault is no answer of
the Brain's, but a reason.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.features.loading import loader_wait_of
from convoy.brain.models.efficiency import EfficiencyModel
from convoy.brain.models.registry.facts import frame_digest
from convoy.brain.plan import Decision, JobRecommendation, JobRequest, Needs, with_loaders
from convoy.brain.serve import translate
from convoy.brain.serve.batched import planned
from convoy.brain.serve.champions import Champions
from convoy.brain.serve.companions import Companions
from convoy.brain.serve.explained import explained
from convoy.brain.serve.knowledge import Knowledge, Learned
from convoy.brain.settings import BrainSettings
from convoy.brain.store import queries
from convoy.brain.store.model_files import Registry
from convoy.core.api.errors import ConvoyError, InvalidInput, Unavailable
from convoy.core.api.v1 import brain_pb2
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain")

FAILED = "ModelFailed"
"""Reason of an answer that a fault of a model prevented."""
LOADING = timedelta(hours=6)
"""How far back is looked at how long steps waited for their data: after that what didn't help may be tried again."""


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


@dataclass(frozen=True, slots=True)
class Question:
    """A question, and what its answer rests on."""

    asked: brain_pb2.OptimizeRequest
    request: JobRequest
    observed: pd.DataFrame
    loading: pd.DataFrame
    """How long its steps waited for their data, of late."""
    learned: Learned | None
    """None: learning failed, ``problem`` says how."""
    problem: str = ""

    @property
    def key(self) -> str:
        """Return what is the same of questions with one answer: their content, the observations, the model."""
        held = self.request.changes_last_hour, self.request.frozen_seconds > 0, self.request.restart_seconds
        origin = {} if self.learned is None else self.learned.origin
        measured = self.observed.drop(columns="cluster_cpu")  # that follows from the questions before
        said = json.dumps([frame_digest(measured), frame_digest(self.loading), held, origin], sort_keys=True)
        content = self.asked.SerializeToString(deterministic=True)
        return hashlib.sha256(content + b"\0" + said.encode()).hexdigest()


class Adviser:
    """Answers questions from one store; ``exclude_job`` is the uid of a job whose own past isn't to be its prior."""

    def __init__(
        self, engine: Engine, clock: Clock, settings: BrainSettings, *, exclude_job: str | None = None
    ) -> None:
        self._engine = engine
        self._clock = clock
        self._settings = settings
        self._prices = settings.prices()
        registry = Registry(engine, settings.models_folder(), keep=settings.models_keep)
        champions = Champions(registry, timedelta(days=settings.models_fresh_days))
        self._companions = Companions(engine, clock, settings, registry)
        self.knowledge = Knowledge(engine, clock, exclude_job=exclude_job, champions=champions)

    def efficiency(self) -> EfficiencyModel:
        """Return the model of what a sample of a larger batch is worth.

        Raises:
            Unavailable: the database can't be reached now.
        """
        return self._companions.efficiency()

    def warm_up(self) -> None:
        """Learn from history in the background."""
        self.knowledge.learn_in_background()
        self._companions.warm_up()

    def advise(self, asked: brain_pb2.OptimizeRequest) -> Advice:
        """Answer a question about one job; nothing is stored.

        Raises:
            InvalidInput: the question makes no sense.
            Unavailable: the database can't be reached now.
        """
        return self.answer(self.understood(asked))

    def understood(self, asked: brain_pb2.OptimizeRequest) -> Question:
        """Return a question with all that its answer rests on.

        Raises:
            InvalidInput: the question makes no sense.
            Unavailable: the database can't be reached now.
        """
        _refuse_nonsense(asked)
        uid = asked.job.uid
        observed = frames.observed(self._engine, uid)
        now = self._clock.now()
        request = translate.to_request(
            asked,
            observed,
            horizon_seconds=self._settings.horizon_seconds,
            trial_seconds=self._settings.trial_seconds,
            changes_last_hour=queries.changes_since(
                self._engine, uid, datetime.fromtimestamp(now, UTC) - timedelta(hours=1)
            ),
            changes_per_hour=self._settings.changes_per_hour,
            restart_seconds=queries.restart_seconds(self._engine, uid),
            objective=self._settings.objective,
            now=now,
        )
        since = datetime.fromtimestamp(now, UTC).replace(minute=0, second=0, microsecond=0) - LOADING
        loading = loader_wait_of(self._engine, uid, since)  # whole hours: the same from one question to the next
        try:
            return Question(asked, request, observed, loading, self.knowledge.learned())
        except ConvoyError:
            raise
        except Exception as error:
            log.error("learning failed", job=uid, exc_info=error)
            return Question(asked, request, observed, loading, None, f"{type(error).__name__}: {error}")

    def answer(self, question: Question) -> Advice:
        """Return the answer; that a model failed is one.

        Raises:
            Unavailable: the database can't be reached now.
        """
        learned = question.learned
        if learned is None:
            return _failed(question, question.problem)
        try:
            with learned.lock:
                answer = self._planned(learned, question)
                answer = with_loaders(answer, question.request, question.observed, question.loading)
                explanation = explained(learned.model, question.observed, question.request, answer)
        except ConvoyError:
            raise
        except Exception as error:
            log.error("a model failed", job=question.asked.job.uid, exc_info=error)
            return _failed(question, f"{type(error).__name__}: {error}")
        return Advice(answer, question.observed, learned.rows, learned.origin, explanation)

    def _planned(self, learned: Learned, question: Question) -> JobRecommendation:
        """Return the plan; without what pods need where a model of that fails."""
        observed, request = question.observed, question.request
        try:
            needs = self._companions.needs(question.asked, learned.load)
            return planned(learned.model, observed, request, self._prices, needs, self.efficiency())
        except Unavailable:
            raise
        except Exception as error:
            log.error("a model of what pods need failed", job=request.job, exc_info=error)
            answer = planned(learned.model, observed, request, self._prices, Needs(), EfficiencyModel())
            note = f"cores and memory weren't looked at: a model failed ({type(error).__name__}: {error})"
            return replace(answer, notes=(*answer.notes, note))


def _failed(question: Question, problem: str) -> Advice:
    current = question.asked.current
    message = f"the model failed ({problem}); the job keeps its size"
    failed = JobRecommendation(Decision.UNDEFINED, FAILED, message, current.workers, target_ps=current.ps)
    return Advice(failed, question.observed, 0, {}, {})


def _refuse_nonsense(asked: brain_pb2.OptimizeRequest) -> None:
    if asked.stage == brain_pb2.OptimizeRequest.UNSPECIFIED:
        raise InvalidInput("stage is unspecified: expected START or RUNNING", reason="InvalidRequest")
    counts = {
        "current.workers": asked.current.workers,
        "limits.min_workers": asked.limits.min_workers,
        "limits.max_workers": asked.limits.max_workers,
        "limits.node_unit": asked.limits.node_unit,
        "limits.global_batch": asked.limits.global_batch,
        "limits.min_ps": asked.limits.min_ps,
        "limits.max_ps": asked.limits.max_ps,
        "current.ps": asked.current.ps,
    }
    for field, value in counts.items():
        if value < 0:
            raise InvalidInput(f"{field} is {value}: expected 0 or more", reason="InvalidRequest")
    if asked.limits.max_workers < max(1, asked.limits.min_workers):
        raise InvalidInput(
            f"limits.max_workers is {asked.limits.max_workers}: expected at least {max(1, asked.limits.min_workers)}",
            reason="InvalidRequest",
        )
