"""``convoy brain optimize``: what all jobs together should become now, from the store alone; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.features import cluster as known
from convoy.brain.features import frames
from convoy.brain.plan import JobRequest, Prices, Stage
from convoy.brain.plan.cluster import Capacity, ClusterJob, ClusterPlan, Policy, Pool, plan_cluster
from convoy.brain.plan.cluster.answer import Watch
from convoy.brain.plan.cluster.offers import Offer, offered, unweighed
from convoy.brain.plan.guards import restart_seconds
from convoy.brain.plan.options import SpeedModel
from convoy.brain.serve import translate
from convoy.brain.serve.champions import Champions
from convoy.brain.serve.knowledge import SILENT_SECONDS, Knowledge
from convoy.brain.serve.recommend import question
from convoy.brain.settings import BrainSettings
from convoy.brain.store import queries
from convoy.brain.store.engine import check, open_engine
from convoy.brain.store.migrate import require_schema
from convoy.brain.store.model_files import Registry
from convoy.brain.store.tables import Job
from convoy.core.process import logs
from convoy.core.process.clock import Clock, SystemClock

log = logs.get("brain")


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked about the cluster: its jobs, in the order of ``rows``, and what there is."""

    rows: list[Job]
    jobs: list[ClusterJob]
    capacity: Capacity
    machines: dict[str, tuple[str, ...]]
    """By pool, the names of its machines; none where the capacity was given."""
    model: str
    """Where the speeds came from: ``champion`` or ``store``."""
    history_jobs: int
    currency: str


@dataclass(frozen=True, slots=True)
class Optimized:
    """The question and its answer."""

    asked: Asked
    plan: ClusterPlan


def optimize(
    settings: BrainSettings,
    *,
    capacity: Capacity | None = None,
    policy: Policy | None = None,
    any_pool: bool = False,
    watch: Watch | None = None,
) -> Optimized:
    """Plan for all jobs that the store knows to run or wait.

    Args:
        settings: of the Brain.
        capacity: to plan for; None: the machines that the store knows.
        policy: what is preferred.
        any_pool: let jobs go to other pools than the one they are in.
        watch: is told of each better plan.

    Raises:
        InvalidSetting, Unusable, Unavailable: the database can't be used.
    """
    url = settings.database()
    check(url, must_exist=True)
    engine = open_engine(url, must_exist=True)
    try:
        require_schema(engine)
        asked = asked_of(engine, SystemClock(), settings, capacity=capacity, any_pool=any_pool)
        return Optimized(asked, plan_cluster(asked.jobs, asked.capacity, policy, watch=watch))
    finally:
        engine.dispose()


def asked_of(
    engine: Engine,
    clock: Clock,
    settings: BrainSettings,
    *,
    capacity: Capacity | None = None,
    any_pool: bool = False,
    model: SpeedModel | None = None,
) -> Asked:
    """Return what to ask about all jobs that run or wait: each one's sizes with expected speeds, and what there is.

    A job whose question fails is left as it is, and the log says why.

    Args:
        model: of speeds; None: the registry's champion, else one learned from the store.

    Raises:
        Unavailable: the database can't be reached now.
    """
    now = datetime.fromtimestamp(clock.now(), UTC)
    machines = known.machines(engine, settings.cluster)
    if not machines.capacity.pools:
        machines = known.machines(engine)
    there = capacity or machines.capacity
    origin, past = "given", 0
    if model is None:
        registry = Registry(engine, settings.models_folder(), keep=settings.models_keep)
        champions = Champions(registry, timedelta(days=settings.models_fresh_days))
        learned = Knowledge(engine, clock, champions=champions).learned()
        model, origin = learned.model, str(learned.origin["from"])
        past = learned.model.history_jobs
    rows = queries.live_jobs(engine, now - timedelta(seconds=SILENT_SECONDS))
    reader = _Reader(engine, settings, now, machines, there, any_pool, model)
    return Asked(
        rows, list(reader.jobs(rows)), there, machines.names if capacity is None else {}, origin, past,
        settings.currency,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Reader:
    """What each job is asked with."""

    engine: Engine
    settings: BrainSettings
    now: datetime
    machines: known.Machines
    capacity: Capacity
    any_pool: bool
    model: SpeedModel

    def jobs(self, rows: list[Job]) -> Iterator[ClusterJob]:
        """Yield each job with what it may be."""
        pods, restarts = known.pods(self.engine), known.restarts(self.engine)
        prices = Prices(self.settings.price_cpu_hour, self.settings.price_gib_hour, currency=self.settings.currency)
        for row in rows:
            mine = pods.get(row.id, {})
            asked, observed = self._request(row, mine)
            at = self._pool_of(mine.get("worker"))
            pools = self._pools(row, asked, at)
            if not at and len(pools) == 1:  # what it holds, it holds where alone it can be
                at = pools[0].name
            try:
                offer = offered(self.model, observed, asked, prices, pools, at)
            except Exception as error:  # a model's fault at one job is no reason to plan for none
                log.error("the sizes of a job couldn't be weighed", job=row.uid, exc_info=error)
                offer = unweighed(asked, at)
            yield self._job(row, asked, offer, mine, restarts.get(row.id, asked.restart_seconds))

    def _request(self, row: Job, pods: dict[str, known.Pods]) -> tuple[JobRequest, pd.DataFrame]:
        """Return the job's question, as its master last asked it, with what its pods say."""
        asked, _ = question(self.engine, row)
        observed = frames.observed(self.engine, row.uid)
        changes = queries.changes_since(self.engine, row.uid, self.now - timedelta(hours=1))
        request = translate.to_request(
            asked,
            observed,
            horizon_seconds=self.settings.horizon_seconds,
            trial_seconds=self.settings.trial_seconds,
            changes_last_hour=changes,
            changes_per_hour=self.settings.changes_per_hour,
        )
        worker, server = pods.get("worker", known.Pods()), pods.get("ps", known.Pods())
        runs = row.state == "Running" or len(observed) > 0
        current = (worker.count or request.current_workers) if runs else 0
        limits = replace(
            request.limits,
            max_workers=max(request.limits.max_workers, worker.count, 1),
            worker_cpu=worker.cpu or request.limits.worker_cpu,
            worker_memory=int(worker.memory) or request.limits.worker_memory,
            worker_accelerators=worker.accelerators or request.limits.worker_accelerators,
            ps_cpu=server.cpu or request.limits.ps_cpu,
            ps_memory=int(server.memory) or request.limits.ps_memory,
        )
        stage = Stage.RUNNING if current else Stage.START
        return replace(
            request,
            current_workers=current,
            current_ps=server.count or request.current_ps,
            limits=limits,
            stage=stage,
        ), observed

    def _pool_of(self, pods: known.Pods | None) -> str:
        """Return the pool that most of a job's workers are in; "": none is known."""
        places = (
            [self.machines.places[one][0] for one in pods.machines if one in self.machines.places] if pods else []
        )
        return max(sorted(set(places)), key=places.count) if places else ""

    def _pools(self, row: Job, asked: JobRequest, at: str) -> list[Pool]:
        """Return the pools that a job may be in: its own; else its type of machine; its accelerator; else all."""
        pools = list(self.capacity.pools)
        if asked.limits.worker_accelerators > 0:
            pools = [pool for pool in pools if pool.accelerators_per_node > 0]
        if self.any_pool:
            return pools
        for alike in (
            [pool for pool in pools if pool.name == at],
            [pool for pool in pools if row.node_type and pool.name == row.node_type],
            [pool for pool in pools if row.accelerator and pool.accelerator == row.accelerator],
        ):
            if alike:
                return alike
        return pools

    def _job(
        self, row: Job, asked: JobRequest, offer: Offer, pods: dict[str, known.Pods], restart: float
    ) -> ClusterJob:
        often = 0 < asked.limits.changes_per_hour <= asked.changes_last_hour
        return ClusterJob(
            name=row.uid,
            sizes=offer.sizes,
            user=row.user,
            current=offer.current,
            nodes=self._nodes(pods),
            restart_seconds=restart_seconds(restart),
            horizon_seconds=asked.horizon_seconds,
            pinned=asked.pinned or asked.frozen_seconds > 0 or often,
            requested=offer.requested,
        )

    def _nodes(self, pods: dict[str, known.Pods]) -> tuple[int, ...]:
        """Return the places of a job's pods in their pool; none where one isn't known, or the capacity was given."""
        held = [machine for role in ("worker", "ps") for machine in pods.get(role, known.Pods()).machines]
        places = [self.machines.places.get(machine) if machine is not None else None for machine in held]
        if self.capacity is not self.machines.capacity or len({place[0] for place in places if place}) != 1:
            return ()
        return tuple(place[1] for place in places if place) if all(places) else ()
