"""What history says about a job that has hardly been seen: Gaussians over its coefficients, one a scope.

The history's jobs are fitted together by EM (empirical Bayes): each job's mode under the present prior, then the
prior's mean and covariance from the modes and their uncertainty, shrunk towards the physical default below, so that a
history of one job teaches a little and an empty one nothing. Groups of jobs that share a label (``LABELS`` of
``frame``) have a mean of their own, shrunk by how alike the group's jobs are found to be, each left out in
turn.

Which scope to believe is decided by stacking: weights that make each history job, left out, most likely. The physical
default always keeps a part: it is the heavy tail, "like none of them".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np
from scipy.special import logsumexp

from convoy.brain.models.throughput import batched
from convoy.brain.models.throughput.errors import Fitted, learn_errors, learn_field, learn_scales
from convoy.brain.models.throughput.frame import Observations
from convoy.brain.models.throughput.misfit import SCALES, Errors, Misfit, Seen
from convoy.brain.models.throughput.mode import Mode, Scope, find_mode
from convoy.brain.models.throughput.physics import ALL_REDUCE, LEVEL, NAMES, SAMPLE, Array, Form
from convoy.brain.models.throughput.posterior import Draws, infer

_T = TypeVar("_T")

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

FEW_JOBS = 5
"""Below it jobs are too few to say how alike they are."""

REFINEMENTS = 8
REFINING_DRAWS = 768
REFINED_CONFIGURATIONS = 24
MOST_REFINED = 200
"""Jobs above which the linearized posteriors must do: many jobs teach what few can't."""

MOST_SINGLE = 500
"""Jobs above which modes are found together, where torch is installed."""

MOST_COMPARED = 200
"""Jobs above which only so many, evenly spaced, are left out in turn, or compared with."""

NONE_WEIGHT = 0.05
"""The least weight of the physical default."""

EVERYTHING, NONE = "everything", "none"
LIKENESS = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95])


@dataclass(frozen=True)
class HistoryJob:
    """One job of the history: what it showed and which labels it carries."""

    name: str
    labels: dict[str, str]
    observations: Observations


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
        found = self._scopes_from(labels, kept)
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

    def _scopes_from(self, labels: dict[str, str], kept: list[int]) -> list[Scope]:
        none = default_scope(self.form)
        if not kept:
            return [none]
        base = predictive([self.jobs[index] for index in kept], self.pseudo_jobs, self.form)
        scopes = [base]
        for label, likeness in self.likeness.items():
            members = [i for i in kept if label in labels and self.jobs[i].labels.get(label) == labels[label]]
            if members and len(members) < len(kept) and likeness > 0:
                scopes.append(_group_scope(label, [self.jobs[i] for i in members], base, likeness))
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


def _learn_pseudo_jobs(jobs: list[Fitted], misfit: Misfit, form: Form) -> float:
    """Return how many jobs the default should count for: what makes each job, left out, most likely."""
    if len(jobs) < FEW_JOBS:
        return PSEUDO_JOBS[0]
    jobs = _some(jobs)
    scores = np.zeros(len(PSEUDO_JOBS))
    for index, job in enumerate(jobs):
        others = [one.mode for one in jobs[:index] + jobs[index + 1 :]]
        seen = Seen.of(job.observations, misfit, form)
        covariance = seen.covariance(job.scale)
        for place, candidate in enumerate(PSEUDO_JOBS):
            scores[place] += job.mode.evidence(seen, predictive(others, candidate, form), covariance)
    return PSEUDO_JOBS[int(np.argmax(scores))]


def _some(things: list[_T]) -> list[_T]:
    """Return at most ``MOST_COMPARED`` of the things, evenly spaced."""
    if len(things) <= MOST_COMPARED:
        return things
    return [things[place] for place in np.linspace(0, len(things) - 1, MOST_COMPARED).round().astype(int)]


def _group_scope(label: str, modes: Sequence[Gaussian], base: Scope, likeness: float) -> Scope:
    count = len(modes)
    trust = count * likeness / (count * likeness + 1 - likeness)
    own = np.mean([mode.theta for mode in modes], axis=0)
    covariance = base.covariance * ((1 - likeness) + likeness * (1 - trust))
    return replace(base, name=label, mean=base.mean + trust * (own - base.mean), covariance=covariance, jobs=count)


def learn(
    jobs: Iterable[HistoryJob], scatter: tuple[float, float], form: Form, rounds: int = 8
) -> tuple[Prior, list[Fitted]]:
    """Learn a prior from jobs with at least one usable observation; return it and the jobs, fitted under it.

    ``scatter`` is the summed squared deviation among repeated measurements, and its degrees of freedom.
    """
    usable = tuple(job for job in jobs if len(job.observations))
    squares, freedom = scatter
    default = Errors()
    session = float(np.sqrt((squares + 5 * default.session**2) / (freedom + 5)))
    errors = replace(default, session=max(session, 0.01))
    if not usable:
        return Prior(misfit=Misfit(errors), form=form), []
    scope, pseudo_jobs = default_scope(form), PSEUDO_JOBS[0]
    fitted: list[Fitted] = []
    scales = [1.0] * len(usable)
    seen, known = [Seen.of(job.observations, Misfit(errors), form) for job in usable], errors
    for round_ in range(rounds):
        if known is not errors:
            seen, known = [Seen.of(job.observations, Misfit(errors), form) for job in usable], errors
        before: list[Array | None] = [one.mode.theta for one in fitted] or [None] * len(usable)
        fitted = [
            Fitted(job.name, job.observations, mode, scale)
            for job, mode, scale in zip(usable, _modes(seen, scope, scales, before), scales, strict=True)
        ]
        if round_ in (3, rounds - 3):
            errors = learn_errors(fitted, scope, errors)
        if round_ in (3, rounds - 2):
            errors, scales = learn_scales(fitted, scope, errors)
        if round_ >= rounds // 2:
            pseudo_jobs = _learn_pseudo_jobs(fitted, Misfit(errors), form)
        scope = pooled([one.mode for one in fitted], pseudo_jobs, form)
    misfit = Misfit(errors)
    fitted = _refined(usable, fitted, misfit, pseudo_jobs, form)
    scope = pooled([one.mode for one in fitted], pseudo_jobs, form)
    likeness = {
        label: _learn_likeness(label, usable, fitted, misfit, pseudo_jobs, form)
        for label in sorted({label for job in usable for label in job.labels})
    }
    prior = Prior(
        tuple(
            PastJob(job.name, job.labels, one.mode.theta, one.mode.covariance)
            for job, one in zip(usable, fitted, strict=True)
        ),
        Misfit(errors, learn_field(fitted, scope, errors)),
        {label: value for label, value in likeness.items() if value > 0},
        batch_spread=_batch_spread(usable),
        form=form,
        pseudo_jobs=pseudo_jobs,
    )
    return replace(prior, stacking=_stack(prior, fitted)), fitted


def _modes(seen: list[Seen], scope: Scope, scales: list[float], starts: list[Array | None]) -> list[Mode]:
    covariances = [one.covariance(scale) for one, scale in zip(seen, scales, strict=True)]
    if len(seen) > MOST_SINGLE and batched.available():
        return batched.find_modes(seen, scope, covariances, starts)
    return [
        find_mode(one, scope, covariance, start)
        for one, covariance, start in zip(seen, covariances, starts, strict=True)
    ]


def _refined(
    jobs: tuple[HistoryJob, ...], fitted: list[Fitted], misfit: Misfit, pseudo_jobs: float, form: Form
) -> list[Fitted]:
    """Return the jobs with the moments of each one's posterior, drawn rather than linearized, by Monte Carlo EM.

    A coefficient that a job shows to be no more than something (a synchronization too short to be seen) is bounded on
    one side only; a Gaussian at the mode would let it be as large as it may be small, and the prior with it.
    """
    if len(jobs) > MOST_REFINED:
        return fitted
    generator = np.random.default_rng(0)
    few = [job.observations.thinned(REFINED_CONFIGURATIONS) for job in jobs]
    seen = [Seen.of(job.observations, misfit, form) for job in jobs]
    known = [_of_scale(misfit, one.scale) for one in fitted]
    for _ in range(REFINEMENTS):
        scope = pooled([one.mode for one in fitted], pseudo_jobs, form)
        draws = [Draws.of(scope, REFINING_DRAWS, generator)]
        posteriors = [infer(one, draws, own, generator).theta for one, own in zip(few, known, strict=True)]
        fitted = [
            replace(before, mode=Mode(theta.mean(axis=0), np.cov(theta.T), *one.jacobian(theta.mean(axis=0))))
            for before, theta, one in zip(fitted, posteriors, seen, strict=True)
        ]
    return fitted


def _batch_spread(jobs: tuple[HistoryJob, ...]) -> float:
    """Return the standard deviation of the logarithm of batches within jobs of more than one configuration."""
    batches = [np.log(job.observations.configurations.batch_size) for job in jobs if len(job.observations) > 1]
    batches = [batch for batch in batches if not np.isnan(batch).any()]
    return float(np.sqrt(np.mean([batch.var(ddof=1) for batch in batches]))) if batches else Prior().batch_spread


def _of_scale(misfit: Misfit, scale: float) -> Misfit:
    only = tuple(float(one == scale) for one in SCALES)
    return replace(misfit, errors=replace(misfit.errors, scales=only))


def _learn_likeness(
    label: str, jobs: tuple[HistoryJob, ...], fitted: list[Fitted], misfit: Misfit, pseudo_jobs: float, form: Form
) -> float:
    """Return how alike jobs sharing ``label`` are: what makes each, left out, most likely given its group."""
    groups: dict[str, list[int]] = {}
    for index, job in enumerate(jobs):
        if label in job.labels:
            groups.setdefault(job.labels[label], []).append(index)
    shared = [members for members in groups.values() if 2 <= len(members) < len(jobs)]
    if not shared:
        return 0.5 if any(len(members) < len(jobs) for members in groups.values()) else 0.0
    base = predictive([one.mode for one in fitted], pseudo_jobs, form)
    scores = np.zeros(len(LIKENESS))
    for index, kin in _some([(index, members) for members in shared for index in members]):
        others = [fitted[other].mode for other in _some([other for other in kin if other != index])]
        seen = Seen.of(jobs[index].observations, misfit, form)
        covariance = seen.covariance(fitted[index].scale)
        for place, likeness in enumerate(LIKENESS):
            scope = _group_scope(label, others, base, float(likeness))
            scores[place] += fitted[index].mode.evidence(seen, scope, covariance)
    return float(LIKENESS[int(np.argmax(scores))])


def _stack(prior: Prior, fitted: list[Fitted]) -> dict[str, float]:
    """Return the weights of scopes that make each history job, left out, most likely; one pseudo-job a scope."""
    names = [EVERYTHING, *prior.likeness, NONE]
    everyone = list(range(len(prior.jobs)))
    compared = _some(everyone)
    densities = np.full((len(compared), len(names)), -np.inf)
    for row, index in enumerate(compared):
        job, one = prior.jobs[index], fitted[index]
        seen = Seen.of(one.observations, Misfit(prior.misfit.errors), prior.form)
        covariance = seen.covariance(one.scale)
        for scope in prior._scopes_from(job.labels, [other for other in everyone if other != index]):
            densities[row, names.index(scope.name)] = one.mode.evidence(seen, scope, covariance)
    weights = np.full(len(names), 1.0 / len(names))
    for _ in range(50):
        joint = densities + np.log(weights)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        weights = (share.sum(axis=0) + 0.5) / (len(compared) + 0.5 * len(names))
    return dict(zip(names, weights.tolist(), strict=True))
