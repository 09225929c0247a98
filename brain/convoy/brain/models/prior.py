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

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import logsumexp

from convoy.brain.models.frame import Observations
from convoy.brain.models.physics import LEVEL, SIZE, Array, jacobian
from convoy.brain.models.posterior import Draws, Misfit, Mode, Scope, find_mode, infer

DEFAULT_MEAN: Array = np.array(
    [
        np.log(0.03),  # overhead: 30 ms a micro-step
        np.log(0.05),  # sample: 50 ms for the job's typical batch
        np.log(0.2),  # crowd: full cores are a fifth slower than one process alone
        np.log(0.01),  # local: 10 ms to pass the gradients round one node
        np.log(0.001),  # local_step
        np.log(0.03),  # net: 30 ms between nodes
        np.log(0.003),  # net_step
        np.log(0.7),  # overlap: g = 1.7
    ]
)
"""The physical default: what is assumed of a job of which nothing is known."""

LEVEL_SD = 3.0
"""Default standard deviation of a job's level: speeds of unknown jobs differ by orders of magnitude."""

FREE_LEVEL_SD = 0.7
"""A new job's level may lie this much further off than its scope's jobs say: one observation settles it, and a model
or machine of another speed isn't taken for a job that scales otherwise."""

DEFAULT_COVARIANCE: Array = np.diag(np.array([1.5, 1.5, 1.0, 1.5, 1.5, 1.5, 1.5, 1.0]) ** 2) + LEVEL_SD**2 * np.outer(
    LEVEL, LEVEL
)

PSEUDO_JOBS = (2.0, 1.0, 0.5, 0.2, 0.1)
"""How many jobs the default may count for in a learned covariance: the first where jobs are few."""

FEW_JOBS = 5
"""Below it jobs are too few to say how alike they are."""

REFINEMENTS = 12
REFINING_DRAWS = 1024
MOST_REFINED = 200
"""Jobs above which the linearized posteriors must do: many jobs teach what few can't."""

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


@dataclass(frozen=True)
class Prior:
    """What was learned from a history; ``scopes`` answers for one job."""

    jobs: tuple[HistoryJob, ...] = ()
    modes: tuple[Mode, ...] = ()
    misfit: Misfit = field(default_factory=Misfit)
    likeness: dict[str, float] = field(default_factory=dict)
    """Of each label: the share of the variance among jobs that jobs sharing the label have in common."""
    stacking: dict[str, float] = field(default_factory=dict)
    """Of each scope: its weight before the job's own evidence."""
    batch_spread: float = 0.5
    """Standard deviation of the logarithm of batches within a job."""
    pseudo_jobs: float = PSEUDO_JOBS[0]
    """How many jobs the physical default counts for in the covariance among jobs."""

    def scopes(self, labels: dict[str, str], without: Iterable[str] = (), batches: int = 0) -> list[Scope]:
        """Return the scopes that apply to a job with ``labels``, from the history's jobs except those named.

        Always ends with the physical default (``none``); with no usable history that one is alone. ``batches`` is how
        many configurations the unit of batches comes from (0: all that there are): a few only estimate the job's
        typical batch, and what they may be off by adds to what isn't known of the seconds a batch.
        """
        off = np.zeros((SIZE, SIZE))
        off[1, 1] = self.batch_spread**2 / batches if batches else 0.0
        left_out = set(without)
        kept = [index for index, job in enumerate(self.jobs) if job.name not in left_out]
        found = self._scopes_from(labels, kept)
        weights = {scope.name: self.stacking.get(scope.name, 0.1) for scope in found}
        learned = sum(weight for name, weight in weights.items() if name != NONE) or 1.0
        none = max(NONE_WEIGHT, weights[NONE]) if len(found) > 1 else 1.0
        return [
            Scope(
                scope.name,
                none if scope.name == NONE else (1 - none) * weights[scope.name] / learned,
                scope.mean,
                scope.covariance if scope.name == NONE else scope.covariance + off,
                scope.jobs,
            )
            for scope in found
        ]

    def _scopes_from(self, labels: dict[str, str], kept: list[int]) -> list[Scope]:
        none = Scope(NONE, 1.0, DEFAULT_MEAN, DEFAULT_COVARIANCE, 0)
        if not kept:
            return [none]
        mean, covariance = _predictive([self.modes[index] for index in kept], self.pseudo_jobs)
        scopes = [Scope(EVERYTHING, 1.0, mean, covariance, len(kept))]
        for label, likeness in self.likeness.items():
            members = [i for i in kept if label in labels and self.jobs[i].labels.get(label) == labels[label]]
            if members and len(members) < len(kept) and likeness > 0:
                scopes.append(_group_scope(label, [self.modes[i] for i in members], mean, covariance, likeness))
        return [*scopes, none]


def pooled(modes: list[Mode], pseudo_jobs: float) -> tuple[Array, Array]:
    """Return mean and covariance of coefficients among jobs, shrunk towards the physical default."""
    thetas = np.array([mode.theta for mode in modes])
    precision = np.linalg.inv(DEFAULT_COVARIANCE)
    # the mean: the default counts for half a job, weighed by what it leaves open
    sample = thetas.mean(axis=0)
    spread = sum(
        (mode.covariance + np.outer(mode.theta - sample, mode.theta - sample) for mode in modes),
        start=np.zeros((SIZE, SIZE)),
    )
    covariance = (spread + pseudo_jobs * DEFAULT_COVARIANCE) / (len(modes) + pseudo_jobs)
    weight = len(modes) * np.linalg.inv(covariance)
    mean = np.linalg.solve(weight + precision, weight @ sample + precision @ DEFAULT_MEAN)
    return mean, (covariance + covariance.T) / 2


def _predictive(modes: list[Mode], pseudo_jobs: float) -> tuple[Array, Array]:
    """Return mean and covariance for one more job: that of the mean itself and a free level are added."""
    mean, covariance = pooled(modes, pseudo_jobs)
    return mean, covariance * (1 + 1 / len(modes)) + FREE_LEVEL_SD**2 * np.outer(LEVEL, LEVEL)


def _learn_pseudo_jobs(jobs: tuple[HistoryJob, ...], modes: list[Mode], misfit: Misfit) -> float:
    """Return how many jobs the default should count for: what makes each job, left out, most likely."""
    if len(modes) < FEW_JOBS:
        return PSEUDO_JOBS[0]
    scores = np.zeros(len(PSEUDO_JOBS))
    for index, (job, mode) in enumerate(zip(jobs, modes, strict=True)):
        others = modes[:index] + modes[index + 1 :]
        around = misfit.observed(job.observations)
        for place, candidate in enumerate(PSEUDO_JOBS):
            scores[place] += mode.evidence(job.observations, around, *_predictive(others, candidate))
    return PSEUDO_JOBS[int(np.argmax(scores))]


def _group_scope(label: str, modes: list[Mode], mean: Array, covariance: Array, likeness: float) -> Scope:
    count = len(modes)
    trust = count * likeness / (count * likeness + 1 - likeness)
    own = np.mean([mode.theta for mode in modes], axis=0)
    return Scope(
        label, 1.0, mean + trust * (own - mean), covariance * ((1 - likeness) + likeness * (1 - trust)), count
    )


def learn(jobs: Iterable[HistoryJob], scatter: tuple[float, float], rounds: int = 8) -> Prior:
    """Learn a prior from jobs with at least one usable observation.

    ``scatter`` is the summed squared deviation among repeated measurements, and its degrees of freedom.
    """
    usable = tuple(job for job in jobs if len(job.observations))
    squares, freedom = scatter
    default = Misfit()
    session = float(np.sqrt((squares + 5 * default.session_sd**2) / (freedom + 5)))
    misfit = Misfit(default.sd, default.length, max(session, 0.01))
    if not usable:
        return Prior(misfit=misfit)
    mean, covariance, pseudo_jobs = DEFAULT_MEAN, DEFAULT_COVARIANCE, PSEUDO_JOBS[0]
    modes: list[Mode | None] = [None] * len(usable)
    for round_ in range(rounds):
        scope = Scope(EVERYTHING, 1.0, mean, covariance, len(usable))
        modes = [
            find_mode(job.observations, scope, misfit.observed(job.observations), mode.theta if mode else None)
            for job, mode in zip(usable, modes, strict=True)
        ]
        if round_ in (1, rounds - 2):
            misfit = _learn_misfit(usable, [mode for mode in modes if mode], mean, covariance, misfit)
        if round_ >= rounds // 2:
            pseudo_jobs = _learn_pseudo_jobs(usable, [mode for mode in modes if mode], misfit)
        mean, covariance = pooled([mode for mode in modes if mode], pseudo_jobs)
    found = _refined(usable, [mode for mode in modes if mode], misfit, pseudo_jobs)
    labels = sorted({label for job in usable for label in job.labels})
    likeness = {label: _learn_likeness(label, usable, found, misfit, pseudo_jobs) for label in labels}
    alike = {label: value for label, value in likeness.items() if value > 0}
    prior = Prior(usable, found, misfit, alike, batch_spread=_batch_spread(usable), pseudo_jobs=pseudo_jobs)
    return replace(prior, stacking=_stack(prior))


def _refined(jobs: tuple[HistoryJob, ...], modes: list[Mode], misfit: Misfit, pseudo_jobs: float) -> tuple[Mode, ...]:
    """Return the modes with the moments of each job's posterior, drawn rather than linearized, by Monte Carlo EM.

    A coefficient that a job shows to be no more than something (a synchronization too short to be seen) is bounded on
    one side only; a Gaussian at the mode would let it be as large as it may be small, and the prior with it.
    """
    if len(jobs) > MOST_REFINED:
        return tuple(modes)
    generator = np.random.default_rng(0)
    for _ in range(REFINEMENTS):
        mean, covariance = pooled(modes, pseudo_jobs)
        draws = [Draws.of(Scope(EVERYTHING, 1.0, mean, covariance, len(jobs)), REFINING_DRAWS, generator)]
        posteriors = [infer(job.observations, draws, misfit, generator).theta for job in jobs]
        modes = [
            Mode(theta.mean(axis=0), np.cov(theta.T), *jacobian(theta.mean(axis=0), job.observations.configurations))
            for theta, job in zip(posteriors, jobs, strict=True)
        ]
    return tuple(modes)


def _batch_spread(jobs: tuple[HistoryJob, ...]) -> float:
    """Return the standard deviation of the logarithm of batches within jobs of more than one configuration."""
    batches = [np.log(job.observations.configurations.batch_size) for job in jobs if len(job.observations) > 1]
    return float(np.sqrt(np.mean([batch.var(ddof=1) for batch in batches]))) if batches else Prior().batch_spread


def _learn_misfit(
    jobs: tuple[HistoryJob, ...], modes: list[Mode], mean: Array, covariance: Array, misfit: Misfit
) -> Misfit:
    """Choose the misfit by the likelihood of all jobs, the physics linear around each mode and integrated out."""
    best, chosen = -np.inf, misfit
    for sd in (0.03, 0.05, 0.08, 0.12, 0.18, 0.25):
        for length in (0.7, 1.5, 3.0):
            candidate = Misfit(sd, (length, length, 1.5 * length), misfit.session_sd)
            # a weak preference for the default, worth one observation
            total = -0.5 * np.log(sd / 0.1) ** 2
            for job, mode in zip(jobs, modes, strict=True):
                total += mode.evidence(job.observations, candidate.observed(job.observations), mean, covariance)
            if total > best:
                best, chosen = total, candidate
    return chosen


def _learn_likeness(
    label: str, jobs: tuple[HistoryJob, ...], modes: tuple[Mode, ...], misfit: Misfit, pseudo_jobs: float
) -> float:
    """Return how alike jobs sharing ``label`` are: what makes each, left out, most likely given its group."""
    groups: dict[str, list[int]] = {}
    for index, job in enumerate(jobs):
        if label in job.labels:
            groups.setdefault(job.labels[label], []).append(index)
    shared = [members for members in groups.values() if 2 <= len(members) < len(jobs)]
    if not shared:
        return 0.5 if any(len(members) < len(jobs) for members in groups.values()) else 0.0
    mean, covariance = _predictive(list(modes), pseudo_jobs)
    scores = np.zeros(len(LIKENESS))
    for members in shared:
        for index in members:
            others = [modes[other] for other in members if other != index]
            observations, around = jobs[index].observations, misfit.observed(jobs[index].observations)
            for place, likeness in enumerate(LIKENESS):
                scope = _group_scope(label, others, mean, covariance, likeness)
                scores[place] += modes[index].evidence(observations, around, scope.mean, scope.covariance)
    return float(LIKENESS[int(np.argmax(scores))])


def _stack(prior: Prior) -> dict[str, float]:
    """Return the weights of scopes that make each history job, left out, most likely; one pseudo-job a scope."""
    names = [EVERYTHING, *prior.likeness, NONE]
    densities = np.full((len(prior.jobs), len(names)), -np.inf)
    everyone = list(range(len(prior.jobs)))
    for index, job in enumerate(prior.jobs):
        for scope in prior._scopes_from(job.labels, [other for other in everyone if other != index]):
            densities[index, names.index(scope.name)] = prior.modes[index].evidence(
                job.observations, prior.misfit.observed(job.observations), scope.mean, scope.covariance
            )
    weights = np.full(len(names), 1.0 / len(names))
    for _ in range(50):
        joint = densities + np.log(weights)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        weights = (share.sum(axis=0) + 0.5) / (len(prior.jobs) + 0.5 * len(names))
    return dict(zip(names, weights.tolist(), strict=True))
