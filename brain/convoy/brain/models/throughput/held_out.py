"""What only jobs left out can tell: how wide intervals must be.

Each job of the history is predicted from few of its own observations and from the other jobs, as a new job will be;
a posterior by itself is as wide as a model that is right would make it.

The exchangeable unit is the job: coverage is a mean over jobs, and a correction from n jobs counts n / (n + 6).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from convoy.brain.models.throughput.errors import Fitted
from convoy.brain.models.throughput.physics import Array
from convoy.brain.models.throughput.posterior import Draws, infer
from convoy.brain.models.throughput.prior import Prior
from convoy.brain.models.throughput.summary import summary

MOST_JOBS = 10
SEEN = (1, 3, 8)
"""Observations from which a job is predicted."""
REPEATS = 3
ASKED = 40
"""Configurations of one job that are predicted."""
HELD_DRAWS = 500
LEVEL = 0.9
WIDTHS: Array = np.exp(np.linspace(np.log(0.85), np.log(2.0), 25))
SHRINKAGE = 6.0
FEWEST_JOBS = 3


@dataclass(frozen=True)
class _Case:
    """A job predicted from some of its observations: the intervals' sides and the errors, each (rows,), of logs."""

    seen: int
    below: Array
    above: Array
    error: Array

    def covered(self) -> Array:
        """Return the share of rows within intervals widened by each of ``WIDTHS``."""
        needed = np.where(self.error < 0, -self.error / self.below, self.error / self.above)
        return np.asarray(np.mean(needed[None, :] <= WIDTHS[:, None], axis=1))


def corrected(prior: Prior, fitted: Sequence[Fitted]) -> Prior:
    """Return the prior with the intervals' widths that jobs left out ask for."""
    places = np.linspace(0, len(fitted) - 1, min(len(fitted), MOST_JOBS)).round().astype(int)
    chosen = [index for index in dict.fromkeys(places.tolist()) if len(fitted[index].observations) > 1]
    if len(chosen) < FEWEST_JOBS:
        return prior
    return replace(prior, widths=_widths(prior, fitted, chosen))


def _widths(prior: Prior, fitted: Sequence[Fitted], chosen: Sequence[int]) -> tuple[float, ...]:
    """Return by how much intervals are to be widened at each of ``SEEN``."""
    cases = _cases(prior, fitted, chosen)
    widths = []
    for seen in SEEN:
        covered: dict[int, list[Array]] = {}
        for job, case in cases:
            if case.seen == seen:
                covered.setdefault(job, []).append(case.covered())
        if len(covered) < FEWEST_JOBS:
            widths.append(1.0)
            continue
        mean = np.mean([np.mean(shares, axis=0) for shares in covered.values()], axis=0)
        enough = int(np.argmax(mean >= LEVEL)) if np.any(mean >= LEVEL) else len(WIDTHS) - 1
        widths.append(float(WIDTHS[enough] ** (len(covered) / (len(covered) + SHRINKAGE))))
    return tuple(widths)


def _cases(prior: Prior, fitted: Sequence[Fitted], chosen: Sequence[int]) -> list[tuple[int, _Case]]:
    found = []
    for index in chosen:
        job = fitted[index]
        labels = prior.jobs[index].labels
        kin = _kin(prior, index)
        generator = np.random.default_rng(index)
        misfit = replace(prior.misfit, shared=prior.misfit.shared.without(kin))
        for count in SEEN:
            if len(job.observations) <= count:
                continue
            scopes = prior.scopes(labels, without=kin, batches=count)
            draws = [Draws.of(scope, HELD_DRAWS, generator) for scope in scopes]
            for _ in range(REPEATS):
                order = generator.permutation(len(job.observations))
                seen, asked = order[:count], order[count : count + ASKED]
                posterior = infer(job.observations.take(seen), draws, misfit, generator)
                held = job.observations.take(asked)
                noise = held.variance + misfit.errors.session**2 / held.sessions
                numbers = np.log(summary(posterior.latent(held.configurations), 0.0, noise, LEVEL)[:, :3])
                mean, lower, upper = numbers.T
                found.append((index, _Case(count, mean - lower, upper - mean, held.log_speed - mean)))
    return found


def _kin(prior: Prior, index: int) -> set[str]:
    """Return the names of a job and of those that train the same model: a new job's model may be new, too."""
    model = prior.jobs[index].labels.get("model")
    same = {job.name for job in prior.jobs if model is not None and job.labels.get("model") == model}
    return {prior.jobs[index].name, *same}


def width(widths: Sequence[float], count: int) -> float:
    """Return by how much the intervals of a job with ``count`` observations are to be widened."""
    if not count:
        return float(widths[0])
    return float(np.exp(np.interp(np.log(count), np.log(SEEN), np.log(widths))))
