"""Goodputs as the models see them: speeds from a job's own measurements and the history, gains from its gradient."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.efficiency import gain
from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.policies.convoy.batches import Batches, batches
from convoy.brain.simulate.policies.convoy.kinds import Ratios
from convoy.brain.simulate.policies.convoy.others import Others
from convoy.brain.simulate.policies.convoy.sizes import Sizes
from convoy.brain.simulate.policy import JobView, Measurement

Array = NDArray[np.float64]
Key = tuple[str, tuple[int, ...], tuple[int, ...]]

CAUTION = 0.25
"""Standard deviations of log speed by which a size that never ran is taken for slower than expected."""
PARTS = (0.125, 0.375, 0.625, 0.875)
"""Of what is left, where the gradient's noise is guessed."""
GROWS = 1.0
"""Power of a job's progress that the noise of its gradient grows with."""
ANEW = 1.15
"""A job's speeds are predicted anew when it has so many times the measurements, or one of another size."""
FIXED = {"strategy": "allreduce", "mode": "sync"}


class Learned:
    """Asks the throughput model, and asks it anew where a job has measured something that tells more.

    On a kind of accelerator on which a job never ran, its last measurement elsewhere counts, as much faster or slower
    as that kind was for other programs, and as uncertain as these differ.
    """

    def __init__(self, others: Others) -> None:
        self._others = others
        self._speeds: dict[tuple[str, str], tuple[tuple[object, ...], dict[Key, tuple[Batches, Array]]]] = {}

    def of(self, job: JobView, sizes: Sizes) -> tuple[Array, list[Batch | None]]:
        """Return goodputs and batches of the sizes."""
        tried, speed = self._speed(job, sizes)
        worth = gain(tried.total / job.initial_batch, *_gradient(job))
        return tried.best(worth * speed / tried.total, len(sizes))

    def seconds_left(self, job: JobView, sizes: Sizes) -> Array:
        """Return the seconds that are left at each size (n,): the more progress, the more a large batch is worth."""
        tried, speed = self._speed(job, sizes)
        done = max(job.progress, job.work / job.epochs)
        squared, variance = _gradient(job)
        still = job.work - job.progress
        at = job.progress + np.array(PARTS) * still
        grown = variance * np.maximum(at / done, 1.0) ** GROWS
        worth = gain(tried.total / job.initial_batch, squared, grown[:, None])
        return np.asarray(np.sum(still / len(PARTS) / tried.most(worth * speed / tried.total, len(sizes)), axis=0))

    def _speed(self, job: JobView, sizes: Sizes) -> tuple[Batches, Array]:
        """Return the batches of each size, and their speeds in samples a second."""
        mine = [one for one in job.measurements if one.kind == sizes.kind]
        elsewhere = job.measurements[-1:] if not mine else []
        name = (job.job if job.measurements else f"any {job.application} of {job.initial_batch:g}", sizes.kind)
        told = len({(one.replicas, one.nodes) for one in mine}), int(np.log(max(len(mine), 1)) / np.log(ANEW))
        seen, known = self._speeds.get(name, (None, {}))
        if seen != (told, *elsewhere):
            known = {}
            self._speeds[name] = ((told, *elsewhere), known)
        key = (sizes.kind, tuple(sizes.replicas.tolist()), tuple(sizes.nodes.tolist()))
        if key not in known and len(sizes) == 1 and (found := _among(known, key)) is not None:
            known[key] = found
        if key not in known:
            tried = batches(job, sizes.kind, sizes.replicas)
            known[key] = (tried, self._predicted(job, sizes, tried, mine))
        return known[key]

    def _predicted(self, job: JobView, sizes: Sizes, tried: Batches, mine: list[Measurement]) -> Array:
        query = _frame(
            job,
            sizes.kind,
            workers=sizes.replicas[tried.place].astype(float),
            nodes=sizes.nodes[tried.place].astype(float),
            batch_size=tried.local,
            accumulation_steps=tried.accumulation,
        )
        model, ratios = self._others.than(job.application)
        observed = _observed(job, mine) if mine or not job.measurements else _elsewhere(job, sizes.kind, ratios)
        answer = model.predict(observed, query)
        ran = {(one.replicas, one.nodes) for one in mine}
        new = [(int(sizes.replicas[place]), int(sizes.nodes[place])) not in ran for place in tried.place]
        sure = not job.measurements  # of its first size nothing is known: there is nothing to prefer to it
        doubt = 0.0 if sure else np.where(new, CAUTION * answer["latent_sd"].to_numpy(dtype=np.float64), 0.0)
        return np.asarray(answer["mean"].to_numpy(dtype=np.float64) * np.exp(-doubt))


def _among(known: dict[Key, tuple[Batches, Array]], key: Key) -> tuple[Batches, Array] | None:
    """Return what is known of one size from an answer about several; None: none was about it."""
    kind, (replicas,), (nodes,) = key
    for (other, all_replicas, all_nodes), (tried, speed) in known.items():
        pairs = list(zip(all_replicas, all_nodes, strict=True))
        if other == kind and (replicas, nodes) in pairs:
            rows = tried.place == pairs.index((replicas, nodes))
            alone = Batches(tried.place[rows] * 0, tried.local[rows], tried.accumulation[rows], tried.total[rows])
            return alone, speed[rows]
    return None


def _gradient(job: JobView) -> tuple[float, float]:
    """Return the squared norm and the variance; where unmeasured, the user's batch is taken to be worth half."""
    return job.gradient or (1.0, max(job.requested_batch / job.initial_batch, 1.0))


def _frame(job: JobView, kind: str, **numbers: Array) -> pd.DataFrame:
    """Return rows of one job on a kind of accelerator."""
    columns: dict[str, object] = dict(numbers)
    rows = pd.RangeIndex(len(numbers["workers"]))
    return pd.DataFrame(columns | {"job": f"{job.job} on {kind}", **FIXED, "accelerator": kind}, index=rows)


def _numbers(seen: list[Measurement]) -> dict[str, Array]:
    return {
        "workers": np.array([float(one.replicas) for one in seen]),
        "nodes": np.array([float(one.nodes) for one in seen]),
        "batch_size": np.array([float(one.local) for one in seen]),
        "accumulation_steps": np.ones(len(seen)),
        "throughput": np.array([one.replicas * one.local / one.step_seconds for one in seen]),
    }


def _observed(job: JobView, seen: list[Measurement]) -> pd.DataFrame:
    compute = np.array([one.step_seconds - one.sync_seconds for one in seen])
    return _frame(job, seen[0].kind if seen else "", **_numbers(seen), compute_seconds=compute)


def _elsewhere(job: JobView, kind: str, ratios: Ratios) -> pd.DataFrame:
    """Return what a job measured last on another kind as if it had been on this one."""
    last = job.measurements[-1]
    ratio, numbers = ratios.of(kind, last.kind), _numbers([last])
    speed = numbers.pop("throughput") * np.exp(ratio.log)
    return _frame(job, kind, **numbers, throughput=speed, throughput_sd=speed * ratio.spread)
