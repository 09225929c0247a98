"""One job as the plan for all jobs asks about it: from its rows in the store to the sizes that it may take."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.features import cluster as known
from convoy.brain.features import frames
from convoy.brain.models.efficiency import EfficiencyModel, GoodputModel
from convoy.brain.plan import JobRequest, Limits, Stage
from convoy.brain.plan.cluster import Capacity, ClusterJob, Pool
from convoy.brain.plan.cluster.offers import Offer, offered, unweighed
from convoy.brain.plan.cluster.valued import Currency
from convoy.brain.plan.decided import Refusal
from convoy.brain.plan.guards import restart_seconds
from convoy.brain.plan.hold import hold_of
from convoy.brain.plan.options import SpeedModel
from convoy.brain.serve import translate
from convoy.brain.serve.recommend import question
from convoy.brain.settings import BrainSettings
from convoy.brain.store import queries
from convoy.brain.store.tables import Job
from convoy.core.api.errors import Unavailable
from convoy.core.process import logs

log = logs.get("brain")


@dataclass(frozen=True, slots=True)
class Reader:
    """What jobs are asked with."""

    engine: Engine
    settings: BrainSettings
    now: datetime
    capacity: Capacity
    machines: known.Machines
    placed: bool
    """Whether the capacity's pools are of these machines."""
    pods: dict[int, dict[str, known.Pods]]
    """By job's number and role."""
    refused: dict[str, list[Refusal]]
    """By job's uid."""
    any_pool: bool
    speed: SpeedModel | None
    efficiency: EfficiencyModel | None

    def job(self, row: Job, priority: int, weight: float) -> tuple[ClusterJob, Currency]:
        """Return a job with what it may be, and what that is compared by; one that can't be read keeps what it has.

        Raises:
            Unavailable: the database can't be reached now.
        """
        try:
            return self._read(row, priority, weight)
        except Unavailable:
            raise
        except Exception as error:
            log.error("a job couldn't be read", job=row.uid, exc_info=error)
        mine = self.pods.get(row.id, {})
        worker, server = mine.get("worker", known.Pods()), mine.get("ps", known.Pods())
        limits = Limits(
            worker_cpu=worker.cpu,
            worker_memory=int(worker.memory),
            worker_accelerators=worker.accelerators,
            ps_cpu=server.cpu,
            ps_memory=int(server.memory),
        )
        held = JobRequest(row.uid, worker.count, limits, strategy=row.strategy, current_ps=server.count)
        offer = unweighed(held, self._pool_of(worker))
        found = ClusterJob(
            row.uid, offer.sizes, row.user, row.namespace, current=offer.current, nodes=self._nodes(mine)
        )
        return found, offer.currency

    def _read(self, row: Job, priority: int, weight: float) -> tuple[ClusterJob, Currency]:
        mine = self.pods.get(row.id, {})
        asked, observed = self._request(row, mine)
        at = self._pool_of(mine.get("worker"))
        pools = self._pools(row, asked, at)
        if not at and len(pools) == 1:  # what it holds, it holds where alone it can be
            at = pools[0].name
        offer = self._offer(row, asked, observed, pools, at)
        runs = offer.current is not None
        found = ClusterJob(
            name=row.uid,
            sizes=offer.sizes,
            user=row.user,
            namespace=row.namespace,
            current=offer.current,
            nodes=self._nodes(mine),
            priority=priority,
            weight=weight,
            restart_seconds=restart_seconds(asked.restart_seconds),
            horizon_seconds=asked.horizon_seconds,
            hold=hold_of(asked) if runs else None,
            requested=offer.requested,
            refused=self._left_out(row, asked, offer),
        )
        return found, offer.currency

    def _request(self, row: Job, pods: dict[str, known.Pods]) -> tuple[JobRequest, pd.DataFrame]:
        """Return the job's question, as its master last asked it, with what its pods say."""
        asked, _ = question(self.engine, row)
        observed = frames.observed(self.engine, row.uid)
        request = translate.to_request(
            asked,
            observed,
            horizon_seconds=self.settings.horizon_seconds,
            trial_seconds=self.settings.trial_seconds,
            changes_last_hour=queries.changes_since(self.engine, row.uid, self.now - timedelta(hours=1)),
            changes_per_hour=self.settings.changes_per_hour,
            restart_seconds=queries.restart_seconds(self.engine, row.uid),
            now=self.now.timestamp(),
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

    def _offer(self, row: Job, asked: JobRequest, observed: pd.DataFrame, pools: list[Pool], at: str) -> Offer:
        """Return a job's sizes, by goodput where that can be; a model's fault at one job stops no plan."""
        models: list[SpeedModel] = [self.speed] if self.speed is not None else []
        if self.speed is not None and self.efficiency is not None:
            models.insert(0, GoodputModel(self.speed, self.efficiency))
        for place, model in enumerate(models):
            try:
                found = offered(model, observed, asked, self.settings.prices(), pools, at)
            except Unavailable:
                raise
            except Exception as error:
                log.error("the sizes of a job couldn't be weighed", job=row.uid, exc_info=error)
                continue
            return replace(found, currency=Currency("throughput", "EfficiencyFailed")) if place else found
        return unweighed(asked, at)

    def _left_out(self, row: Job, asked: JobRequest, offer: Offer) -> dict[int, str]:
        """Return the places of the sizes that a person refused, with who and why; what it has isn't among them."""
        refused = {one.workers: one.words for one in reversed(self.refused.get(row.uid, ()))}
        refused.pop(asked.current_workers, None)
        return {place: refused[count] for place, count in enumerate(offer.sizes.workers.tolist()) if count in refused}

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

    def _nodes(self, pods: dict[str, known.Pods]) -> tuple[int, ...]:
        """Return the places of a job's pods in their pool; none where one isn't known, or the pools were given."""
        held = [machine for role in ("worker", "ps") for machine in pods.get(role, known.Pods()).machines]
        places = [self.machines.places.get(machine) if machine is not None else None for machine in held]
        if not self.placed or len({place[0] for place in places if place}) != 1:
            return ()
        return tuple(place[1] for place in places if place) if all(places) else ()
