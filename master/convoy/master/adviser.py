"""Puts a question to the Brain: what the job has, what it may have, what it is for, what the cluster has left."""

from __future__ import annotations

import asyncio

from convoy.core.api.admission import quota
from convoy.core.api.errors import ConvoyError, Unusable
from convoy.core.api.job import ElasticJob
from convoy.core.api.v1 import brain_pb2
from convoy.core.api.wishes import readable
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import logs
from convoy.master import convert, describe, status
from convoy.master.brain import BrainClient
from convoy.master.capacity import Left, measure
from convoy.master.decide.actions import AskBrain
from convoy.master.decide.events import BrainAnswered, BrainSilent
from convoy.master.decide.state import State

log = logs.get("master.adviser")

ADJUSTABLE = ("workers", "loaders")
"""What a master can change: the rest of an answer is advice."""


async def ask(
    brain: BrainClient, cluster: Cluster, job: ElasticJob, state: State, action: AskBrain, horizon: float, now: float
) -> BrainAnswered | BrainSilent:
    """Ask, and return the answer as an event; ``horizon`` is seconds, 0 for the Brain's own."""
    worker, _ = describe.worker(job)
    try:
        left = await asyncio.to_thread(_measure, cluster, job)
        answer = await brain.ask(question(job, state, action, left, horizon, now))
    except ConvoyError as error:
        return BrainSilent(action.stage, str(error))
    return BrainAnswered(convert.to_advice(answer), left.fits(worker))


def question(
    job: ElasticJob, state: State, action: AskBrain, left: Left, horizon: float, now: float
) -> brain_pb2.OptimizeRequest:
    """Return the question. Workers are nodes; the most is capped by what fits, never below what the job has."""
    fewest, most = state.range()
    worker, _ = describe.worker(job)
    wish, most_of_all = readable(job.metadata.annotations), quota(job)
    done = (state.live.step + 1) * action.global_batch
    if left.nodes:
        most = max(min(most, left.fits(worker)), action.workers, fewest)
    start = action.stage == "START"
    return brain_pb2.OptimizeRequest(
        job=describe.description(job, status.training_state(state)),
        stage=brain_pb2.OptimizeRequest.START if start else brain_pb2.OptimizeRequest.RUNNING,
        current=brain_pb2.Allotment(workers=action.workers, worker_cpu=worker.cores, worker_memory=worker.memory),
        limits=brain_pb2.Limits(
            min_workers=fewest,
            max_workers=most,
            node_unit=state.unit,
            free_cpu=left.total.cores,
            free_memory=left.total.memory,
            largest_node_cpu=left.largest.cores,
            largest_node_memory=left.largest.memory,
            global_batch=action.global_batch,
            allowed_workers=wish.allowed_workers,
            quota_cpu=most_of_all.cores,
            quota_memory=most_of_all.memory,
            max_batch=wish.max_batch,
        ),
        horizon_seconds=horizon,
        restart_seconds=action.restart_seconds,
        objective=wish.objective,
        deadline=wish.deadline,
        remaining_samples=max(wish.total_samples - done, 1.0) if wish.total_samples else 0.0,
        pinned=wish.pinned,
        frozen_until=wish.frozen_until(now),
        adjustable=ADJUSTABLE,
    )


def _measure(cluster: Cluster, job: ElasticJob) -> Left:
    """Return what is left to the job; nothing is known where this master may not see the nodes or others' pods."""
    try:
        nodes = cluster.list(Kind.NODE, "").items
        pods = cluster.list(Kind.POD, None).items
    except Unusable as error:
        log.info("what the cluster has left isn't known", reason=error.reason, why=str(error))
        return Left()
    _, stated = describe.worker(job)
    return measure(nodes, pods, job.metadata.name, job.metadata.namespace, stated=stated)
