"""What is asked about all jobs together: of each its sizes with what they are worth, and what there is to give."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from sqlalchemy.engine import Engine

from convoy.brain.features import cluster as known
from convoy.brain.features.given import Given
from convoy.brain.models.efficiency import EfficiencyModel
from convoy.brain.plan.cluster import Capacity, ClusterJob
from convoy.brain.plan.cluster.priorities import steps
from convoy.brain.plan.cluster.valued import Currency
from convoy.brain.plan.options import SpeedModel
from convoy.brain.serve.advise import Adviser
from convoy.brain.serve.knowledge import SILENT_SECONDS
from convoy.brain.serve.offering import Reader
from convoy.brain.settings import BrainSettings
from convoy.brain.store import advice, queries
from convoy.brain.store.engine import reading
from convoy.brain.store.tables import Job
from convoy.core.api.errors import ConvoyError, Unavailable
from convoy.core.process import logs
from convoy.core.process.clock import Clock

log = logs.get("brain")


@dataclass(frozen=True, slots=True)
class Models:
    """What sizes are valued by.

    Attributes:
        speed: None: learning failed, ``problem`` says how.
        efficiency: None: it can't be used now.
        origin: where the speeds come from: ``champion``, ``store`` or ``nothing``.
        history_jobs: that they were learned from.
        lock: to hold while they are asked; None: nobody else asks them.
    """

    speed: SpeedModel | None
    efficiency: EfficiencyModel | None
    origin: str
    history_jobs: int = 0
    problem: str = ""
    lock: threading.Lock | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked about the cluster: its jobs, in the order of ``rows``, and what there is."""

    rows: list[Job]
    jobs: list[ClusterJob]
    currencies: list[Currency]
    """What each job's sizes are compared by."""
    capacity: Capacity
    machines: dict[str, tuple[str, ...]]
    """By pool, the names of its machines; none where the pools were given."""
    model: str
    """Where the speeds came from: ``champion``, ``store`` or ``nothing``."""
    history_jobs: int
    currency: str
    notes: tuple[str, ...] = ()
    """What else a person should know of the question."""


def asked_of(
    engine: Engine,
    clock: Clock,
    settings: BrainSettings,
    adviser: Adviser,
    *,
    given: Given | None = None,
    any_pool: bool = False,
    models: Models | None = None,
) -> Asked:
    """Return what to ask about all jobs that run or wait: the sizes of each, and what there is to give.

    A job whose question fails is left as it is, and the log says why; so are all where there is no model of speeds.

    Args:
        engine: of the store.
        clock: of the moment that counts.
        settings: of the Brain.
        adviser: whose models are used: the registry's champions, else what is learned from the store.
        given: machines, quotas, shares and budget to plan with.
        any_pool: let jobs go to other pools than the one they are in.
        models: in place of the adviser's.

    Raises:
        Unavailable: the database can't be reached now.
    """
    now = datetime.fromtimestamp(clock.now(), UTC)
    given = given or Given()
    machines = known.machines(engine, settings.cluster)
    if not machines.capacity.pools:
        machines = known.machines(engine)
    capacity = given.over(machines.capacity)
    models = models or _models(adviser)
    rows = queries.live_jobs(engine, now - timedelta(seconds=SILENT_SECONDS))
    with reading(engine) as connection:
        since = now - timedelta(seconds=settings.refused_remembered_seconds)
        refused = advice.refusals(connection, [row.uid for row in rows], since)
    priorities = known.priorities(engine)
    reader = Reader(
        engine, settings, now, capacity, machines, not given.pools, known.pods(engine), refused, any_pool,
        models.speed, models.efficiency,
    )  # fmt: skip
    ranks = steps([priorities.get(row.id, 0.0) for row in rows])
    with models.lock or nullcontext():
        found = [
            reader.job(row, rank, given.weight(row.user, row.namespace))
            for row, rank in zip(rows, ranks, strict=True)
        ]
    notes = [*([f"no speeds: {models.problem}"] if models.problem else []), *given.without_effect(capacity)]
    return Asked(
        rows, [job for job, _ in found], [currency for _, currency in found], capacity,
        {} if given.pools else machines.names, models.origin, models.history_jobs, settings.currency, tuple(notes),
    )  # fmt: skip


def _models(adviser: Adviser) -> Models:
    """Return an adviser's models; a fault of one is told, and is no reason to answer nothing."""
    try:
        learned = adviser.knowledge.learned()
    except ConvoyError:
        raise
    except Exception as error:
        log.error("learning failed", exc_info=error)
        return Models(None, None, "nothing", problem=f"the model failed ({type(error).__name__}: {error})")
    try:
        efficiency: EfficiencyModel | None = adviser.efficiency()
    except Unavailable:
        raise
    except Exception as error:
        log.error("the model of efficiency can't be used", exc_info=error)
        efficiency = None
    return Models(
        learned.model, efficiency, str(learned.origin["from"]), learned.model.history_jobs, lock=learned.lock
    )
