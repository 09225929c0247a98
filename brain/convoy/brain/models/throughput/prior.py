"""What history says about a job that has hardly been seen: Gaussians over its coefficients, one a scope.

Groups of jobs that share a label (``LABELS`` of ``frame``) have a mean of their own, shrunk by how alike the group's
jobs are. The physical default always keeps a part: it is the heavy tail, "like none of them". ``learning`` is where
all of it comes from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from convoy.brain.models.throughput.history import JobRows
from convoy.brain.models.throughput.misfit import Misfit
from convoy.brain.models.throughput.mode import Scope
from convoy.brain.models.throughput.physics import ALL_REDUCE, LEVEL, NAMES, SAMPLE, Array, Form

DEFAULTS: dict[str, tuple[float, float]] = {
    "overhead": (0.03, 1.5),  # 30 ms a micro-step
    "sample": (0.05, 1.5),  # 50 ms for the job's typical batch
    "crowd": (0.2, 1.0),  # full cores are a fifth slower than one process alone
    "local": (0.01, 1.5),  # 10 ms to pass the gradients round one node
    "local_step": (0.001, 1.5),
    "net": (0.03, 1.5),  # 30 ms between nodes
    "net_step": (0.003, 1.5),
    "sharing": (np.exp(0.3), 0.4),  # four workers of a node share its link: half as slow again
    "overlap": (0.7, 1.0),  # g = 1.7
    "push": (0.03, 1.5),
    "apply": (0.03, 1.5),
    "connect": (0.003, 1.5),
    "shard": (0.001, 1.5),
    "need": (0.5, 0.7),  # half a core feeds a process
    "server_need": (0.5, 0.7),
    "split": (1.0, 1.5),  # a batch that nobody told is as often a worker's own as everybody's
    "worker_busy": (1.0, 0.7),  # a core while computing
    "server_busy": (1.0, 0.7),
    "compute_share": (1.0, 0.1),  # compute seconds are what the physics calls so
}
"""The physical default: what is assumed of a job of which nothing is known; of each coefficient its typical value
(seconds, cores) and the standard deviation of its logarithm."""

_DEFAULT_MEAN: Array = np.log([DEFAULTS[name][0] for name in NAMES])

LEVEL_SD = 3.0
"""Default standard deviation of a job's level: speeds of unknown jobs differ by orders of magnitude."""

FREE_LEVEL_SD = 0.7
"""A new job's level may lie this much further off than its scope's jobs say: one observation settles it, and a model
or machine of another speed isn't taken for a job that scales otherwise."""

_DEFAULT_COVARIANCE: Array = np.diag(np.array([DEFAULTS[name][1] for name in NAMES]) ** 2) + LEVEL_SD**2 * np.outer(
    LEVEL, LEVEL
)


def default_scope(form: Form) -> Scope:
    """Return what is assumed of a job of which nothing is known."""
    active = list(form.active)
    return Scope(NONE, 1.0, _DEFAULT_MEAN[active], _DEFAULT_COVARIANCE[np.ix_(active, active)], 0, form)


PSEUDO_JOBS = (2.0, 1.0, 0.5, 0.2, 0.1)
"""How many jobs the default may count for in a learned covariance: the first where jobs are few."""

NONE_WEIGHT = 0.05
"""The least weight of the physical default."""

EVERYTHING, NONE = "everything", "none"


class Gaussian(Protocol):
    """What is known of one job's coefficients."""

    @property
    def theta(self) -> Array:
        """The mean (d,)."""
        ...

    @property
    def covariance(self) -> Array:
        """(d, d)."""
        ...


@dataclass(frozen=True)
class PastJob:
    """What is kept of a job of the history: its name, its labels, and what it says of the coefficients."""

    name: str
    labels: dict[str, str]
    theta: Array
    covariance: Array


@dataclass(frozen=True)
class Prior:
    """What was learned from a history; ``scopes`` answers for one job."""

    jobs: tuple[PastJob, ...] = ()
    misfit: Misfit = field(default_factory=Misfit)
    likeness: dict[str, float] = field(default_factory=dict)
    """Of each label: the share of the variance among jobs that jobs sharing the label have in common."""
    stacking: dict[str, float] = field(default_factory=dict)
    """Of each scope: its weight before the job's own evidence."""
    batch_spread: float = 0.5
    """Standard deviation of the logarithm of batches within a job."""
    form: Form = ALL_REDUCE
    pseudo_jobs: float = PSEUDO_JOBS[0]
    """How many jobs the physical default counts for in the covariance among jobs."""
    widths: tuple[float, ...] = (1.0, 1.0, 1.0)
    """By how much jobs left out ask for wider intervals; of ``held_out``."""
    evidence: tuple[JobRows, ...] = ()
    """What the jobs showed; kept where they are so few that one of them shapes all of this."""

    def scopes(self, labels: dict[str, str], without: Iterable[str] = (), batches: int = 0) -> list[Scope]:
        """Return the scopes that apply to a job with ``labels``, from the history's jobs except those named.

        Always ends with the physical default (``none``); with no usable history that one is alone. ``batches`` is how
        many configurations the unit of batches comes from (0: all that there are): a few only estimate the job's
        typical batch, and what they may be off by adds to what isn't known of the seconds a batch.
        """
        off = np.zeros((len(self.form),) * 2)
        place = self.form.active.index(SAMPLE)
        off[place, place] = self.batch_spread**2 / batches if batches else 0.0
        left_out = set(without)
        kept = [index for index, job in enumerate(self.jobs) if job.name not in left_out]
        found = self.scopes_from(labels, kept)
        weights = {scope.name: self.stacking.get(scope.name, 0.1) for scope in found}
        learned = sum(weight for name, weight in weights.items() if name != NONE) or 1.0
        none = max(NONE_WEIGHT, weights[NONE]) if len(found) > 1 else 1.0
        return [
            replace(scope, weight=none)
            if scope.name == NONE
            else replace(scope, weight=(1 - none) * weights[scope.name] / learned, covariance=scope.covariance + off)
            for scope in found
        ]

    def recast(self, form: Form) -> Prior:
        """Return the prior for jobs of another form; what its jobs don't say of that is known by default."""
        if form == self.form:
            return self
        default = default_scope(form)
        here = [self.form.active.index(one) for one in form.active if one in self.form.active]
        there = [place for place, one in enumerate(form.active) if one in self.form.active]
        jobs = []
        for job in self.jobs:
            theta, covariance = default.mean.copy(), np.diag(np.diag(default.covariance))
            theta[there] = job.theta[here]
            covariance[np.ix_(there, there)] = job.covariance[np.ix_(here, here)]
            jobs.append(replace(job, theta=theta, covariance=covariance))
        return replace(self, jobs=tuple(jobs), form=form)

    def scopes_from(self, labels: dict[str, str], kept: list[int]) -> list[Scope]:
        """Return the scopes that apply to a job with ``labels``, not weighed yet, from the jobs at ``kept``."""
        none = default_scope(self.form)
        if not kept:
            return [none]
        base = predictive([self.jobs[index] for index in kept], self.pseudo_jobs, self.form)
        scopes = [base]
        for label, likeness in self.likeness.items():
            members = [i for i in kept if label in labels and self.jobs[i].labels.get(label) == labels[label]]
            if members and len(members) < len(kept) and likeness > 0:
                scopes.append(group_scope(label, [self.jobs[i] for i in members], base, likeness))
        return [*scopes, none]


def pooled(modes: Sequence[Gaussian], pseudo_jobs: float, form: Form) -> Scope:
    """Return the Gaussian of coefficients among jobs, shrunk towards the physical default."""
    default = default_scope(form)
    thetas = np.array([mode.theta for mode in modes])
    precision = np.linalg.inv(default.covariance)
    # the mean: the default counts for half a job, weighed by what it leaves open
    sample = thetas.mean(axis=0)
    away = thetas - sample
    spread = np.sum([mode.covariance for mode in modes], axis=0) + away.T @ away
    covariance = (spread + pseudo_jobs * default.covariance) / (len(modes) + pseudo_jobs)
    weight = len(modes) * np.linalg.inv(covariance)
    mean = np.linalg.solve(weight + precision, weight @ sample + precision @ default.mean)
    return Scope(EVERYTHING, 1.0, mean, (covariance + covariance.T) / 2, len(modes), form)


def predictive(modes: Sequence[Gaussian], pseudo_jobs: float, form: Form) -> Scope:
    """Return the Gaussian for one more job: that of the mean itself and a free level are added."""
    scope = pooled(modes, pseudo_jobs, form)
    free = FREE_LEVEL_SD**2 * np.outer(form.level, form.level)
    return replace(scope, covariance=scope.covariance * (1 + 1 / len(modes)) + free)


def group_scope(label: str, modes: Sequence[Gaussian], base: Scope, likeness: float) -> Scope:
    """Return the Gaussian for one more job of those that share ``label``, as far as they are alike (0 to 1)."""
    count = len(modes)
    trust = count * likeness / (count * likeness + 1 - likeness)
    own = np.mean([mode.theta for mode in modes], axis=0)
    covariance = base.covariance * ((1 - likeness) + likeness * (1 - trust))
    return replace(base, name=label, mean=base.mean + trust * (own - base.mean), covariance=covariance, jobs=count)
