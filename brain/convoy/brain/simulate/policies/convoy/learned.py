"""Goodputs as the models see them: speeds from a job's own measurements and the history, gains from its gradient."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models import ThroughputModel
from convoy.brain.models.efficiency import gain
from convoy.brain.models.throughput.frame import canonical_model
from convoy.brain.simulate.batch import Batch
from convoy.brain.simulate.policies.convoy.batches import Batches, batches
from convoy.brain.simulate.policies.convoy.kinds import Ratios
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


class Learned:
    """Asks the throughput model, and asks it anew where a job has measured something that tells more.

    Of each program the history is used without its own rows, by whatever name they go: what is compared is what
    history says of a program that it doesn't know.

    On a kind of accelerator on which a job never ran, its last measurement elsewhere counts, as much faster or slower
    as that kind was for other programs, and as uncertain as these differ.
    """

    def __init__(self, history: pd.DataFrame | None) -> None:
        self._history = pd.DataFrame() if history is None else history
        names = history["model"] if history is not None and "model" in history.columns else ()
        self._programs = np.array([canonical_model(str(name)) for name in names], dtype=object)
        self._models: dict[str, tuple[ThroughputModel, Ratios]] = {}
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
        left = np.zeros(len(sizes))
        for part in PARTS:
            at = job.progress + part * (job.work - job.progress)
            grown = variance * max(at / done, 1.0) ** GROWS
            worth = gain(tried.total / job.initial_batch, squared, grown)
            left += (job.work - job.progress) / len(PARTS) / tried.best(worth * speed / tried.total, len(sizes))[0]
        return left

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
        query = pd.DataFrame(
            {
                "workers": sizes.replicas[tried.place].astype(float),
                "nodes": sizes.nodes[tried.place].astype(float),
                "batch_size": tried.local,
                "accumulation_steps": tried.accumulation,
            }
        ).assign(**_labels(job, sizes.kind))
        model, ratios = self._learned(job.application)
        observed = _observed(job, mine) if mine or not job.measurements else _elsewhere(job, sizes.kind, ratios)
        answer = model.predict(observed, query)
        ran = {(one.replicas, one.nodes) for one in mine}
        new = [(int(sizes.replicas[place]), int(sizes.nodes[place])) not in ran for place in tried.place]
        sure = not job.measurements  # of its first size nothing is known: there is nothing to prefer to it
        doubt = 0.0 if sure else np.where(new, CAUTION * answer["latent_sd"].to_numpy(dtype=np.float64), 0.0)
        return np.asarray(answer["mean"].to_numpy(dtype=np.float64) * np.exp(-doubt))

    def _learned(self, application: str) -> tuple[ThroughputModel, Ratios]:
        """Return what the history says without a program's own rows."""
        own = canonical_model(application)
        mine = self._programs == own
        if not mine.any():
            own = ""
        if own not in self._models:
            rest = self._history[~mine] if own else self._history
            self._models[own] = ThroughputModel().fit(rest), Ratios(rest)
        return self._models[own]


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


def _labels(job: JobView, kind: str) -> dict[str, str]:
    return {"job": f"{job.job} on {kind}", "strategy": "allreduce", "mode": "sync", "accelerator": kind}


def _observed(job: JobView, seen: list[Measurement]) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "workers": [float(one.replicas) for one in seen],
            "nodes": [float(one.nodes) for one in seen],
            "batch_size": [float(one.local) for one in seen],
            "accumulation_steps": 1.0,
            "throughput": [one.replicas * one.local / one.step_seconds for one in seen],
            "compute_seconds": [one.step_seconds - one.sync_seconds for one in seen],
        }
    )
    return frame.assign(**_labels(job, seen[0].kind if seen else ""))


def _elsewhere(job: JobView, kind: str, ratios: Ratios) -> pd.DataFrame:
    """Return what a job measured last on another kind as if it had been on this one."""
    last = job.measurements[-1]
    ratio = ratios.of(kind, last.kind)
    frame = _observed(job, [last]).drop(columns="compute_seconds").assign(**_labels(job, kind))
    speed = frame["throughput"] * np.exp(ratio.log)
    return frame.assign(throughput=speed, throughput_sd=speed * ratio.spread)
