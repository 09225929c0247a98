"""Learns a prior from the history's jobs, by EM (empirical Bayes).

Each job's mode under the present prior, then the prior's mean and covariance from the modes and their uncertainty,
shrunk towards the physical default, so that a history of one job teaches a little and an empty one nothing. How alike
the jobs of a label are is found by leaving each out in turn. Which scope to believe is decided by stacking: weights
that make each history job, left out, most likely.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np
from scipy.special import logsumexp

from convoy.brain.models.throughput import batched
from convoy.brain.models.throughput.errors import Fitted, learn_errors, learn_field, learn_scales
from convoy.brain.models.throughput.history import JobRows
from convoy.brain.models.throughput.misfit import SCALES, Errors, Misfit, Seen
from convoy.brain.models.throughput.mode import Mode, Scope, find_mode
from convoy.brain.models.throughput.physics import Array, Form
from convoy.brain.models.throughput.posterior import Draws, infer
from convoy.brain.models.throughput.prior import (
    EVERYTHING,
    NONE,
    PSEUDO_JOBS,
    PastJob,
    Prior,
    default_scope,
    group_scope,
    pooled,
    predictive,
)

_T = TypeVar("_T")

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

LIKENESS = np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95])


def learn(jobs: Iterable[JobRows], form: Form, rounds: int = 8) -> tuple[Prior, list[Fitted]]:
    """Learn a prior from jobs with at least one usable observation; return it and the jobs, fitted under it."""
    usable = tuple(job for job in jobs if len(job.observations))
    squares, freedom = np.sum([job.scatter for job in usable], axis=0) if usable else (0.0, 0.0)
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
    jobs: tuple[JobRows, ...], fitted: list[Fitted], misfit: Misfit, pseudo_jobs: float, form: Form
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


def _batch_spread(jobs: tuple[JobRows, ...]) -> float:
    """Return the standard deviation of the logarithm of batches within jobs of more than one configuration."""
    batches = [np.log(job.observations.configurations.batch_size) for job in jobs if len(job.observations) > 1]
    batches = [batch for batch in batches if not np.isnan(batch).any()]
    return float(np.sqrt(np.mean([batch.var(ddof=1) for batch in batches]))) if batches else Prior().batch_spread


def _of_scale(misfit: Misfit, scale: float) -> Misfit:
    only = tuple(float(one == scale) for one in SCALES)
    return replace(misfit, errors=replace(misfit.errors, scales=only))


def _learn_likeness(
    label: str, jobs: tuple[JobRows, ...], fitted: list[Fitted], misfit: Misfit, pseudo_jobs: float, form: Form
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
            scope = group_scope(label, others, base, float(likeness))
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
        for scope in prior.scopes_from(job.labels, [other for other in everyone if other != index]):
            densities[row, names.index(scope.name)] = one.mode.evidence(seen, scope, covariance)
    weights = np.full(len(names), 1.0 / len(names))
    for _ in range(50):
        joint = densities + np.log(weights)
        share = np.exp(joint - logsumexp(joint, axis=1, keepdims=True))
        weights = (share.sum(axis=0) + 0.5) / (len(compared) + 0.5 * len(names))
    return dict(zip(names, weights.tolist(), strict=True))


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
