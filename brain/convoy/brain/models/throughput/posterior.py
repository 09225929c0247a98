"""What a job's few observations say about its coefficients, and about speeds at other configurations.

Model of a job: log speed at x = physics(theta, x) + misfit(x) + noise. ``theta`` comes from a mixture of Gaussians,
one a scope of history; how far the physics is off (``misfit``) is the job's own too, one of few scales.

Inference is importance reweighting of cached prior draws, because Gaussian approximations fail at one and two
observations. The level of a job (how fast its machine is) is drawn exactly given the rest, so that draws aren't
wasted on it. Where the effective number of draws is small, draws around the modes of the likeliest scopes and scales
are mixed in (multiple importance sampling with the balance heuristic), so that weights stay bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.special import gammaln, logsumexp

from convoy.brain.models.throughput.frame import Observations
from convoy.brain.models.throughput.misfit import SCALES, Misfit, Seen
from convoy.brain.models.throughput.mode import Scope, find_mode
from convoy.brain.models.throughput.physics import Array, Configurations, log_speed

ENOUGH = 400.0
"""Effective draws below which draws around modes are added."""

KEPT = 256
"""Equally likely draws that a posterior keeps."""

MODES = 3
"""Scopes and scales around whose modes draws are added, unless unlikelier than the best by ``FAR`` (logarithm)."""
FAR = 4.0
AROUND = 384
"""Draws around one mode."""

FREEDOM = 4.0
"""Degrees of freedom of the Student-t weights of observations."""


@dataclass(frozen=True)
class Draws:
    """Draws of one scope, split into shape and level: theta = shape + level * form.level, the two independent."""

    scope: Scope
    shape: Array
    level_mean: float
    level_variance: float
    factor: Array
    """Lower Cholesky factor of the scope's covariance."""

    @classmethod
    def of(cls, scope: Scope, count: int, generator: np.random.Generator) -> Draws:
        """Draw ``count`` shapes."""
        factor = cholesky(scope.covariance, lower=True)
        direction = scope.form.level
        weights = cho_solve((factor, True), direction)
        precision = float(direction @ weights)
        theta = scope.mean + generator.standard_normal((count, len(direction))) @ factor.T
        level = theta @ weights / precision
        shape = theta - level[:, None] * direction
        return cls(scope, shape, float(scope.mean @ weights / precision), 1 / precision, factor)

    def log_density(self, theta: Array) -> Array:
        """Return the scope's log density at ``theta`` (draws, d)."""
        white = solve_triangular(self.factor, (theta - self.scope.mean).T, lower=True)
        log_determinant = float(np.sum(np.log(np.diag(self.factor))))
        return np.asarray(-0.5 * np.sum(white**2, axis=0) - log_determinant - 0.5 * len(white) * np.log(2 * np.pi))


def gaussian_log_density(residual: Array, factor: Array) -> Array:
    """Return log N(residual; 0, L L') for rows of ``residual`` (draws, k)."""
    white = solve_triangular(factor, residual.T, lower=True)
    constant = float(np.sum(np.log(np.diag(factor)))) + 0.5 * len(factor) * np.log(2 * np.pi)
    return np.asarray(-0.5 * np.sum(white**2, axis=0) - constant)


@dataclass(frozen=True)
class Part:
    """Equally likely draws that share one scale of the misfit."""

    theta: Array
    scale: float
    factor: Array
    """Lower Cholesky factor of the speeds' covariance (k, k), the distrusted ones inflated."""
    residual: Array
    """Observed speeds minus physics, (draws, k)."""


@dataclass(frozen=True)
class Latent:
    """Log speeds of one part's draws at n questions."""

    values: Array
    """(draws, n), the misfit's mean included."""
    left: Array
    """Variance of the misfit that is left, (n,)."""


@dataclass(frozen=True)
class Believed:
    """How likely one scope of history is to be the one that this job is like."""

    scope: Scope
    before: float
    """The job's own observations not regarded."""
    after: float


@dataclass(frozen=True)
class Posterior:
    """Equally likely draws of a job's coefficients, with the misfit conditioned on its observations."""

    parts: tuple[Part, ...]
    seen: Seen
    misfit: Misfit
    trust: Array
    """What divides the variances of what was seen, (k + r,)."""
    scopes: tuple[Believed, ...]

    @property
    def theta(self) -> Array:
        """All draws, (KEPT, d)."""
        return np.vstack([part.theta for part in self.parts])

    def latent(self, query: Configurations) -> list[Latent]:
        """Return log speeds at ``query``, part by part."""
        features = query.features
        mean, known = self.misfit.latent(features, self.seen.observations.group)
        fixed, own = self.misfit.kernels(features, self.seen.features, known, self.seen.known)
        found = []
        speeds = log_speed(self.seen.form.full(self.theta), query) + mean
        explained = np.sum(known * known, axis=1)
        at = 0
        for part in self.parts:
            values = speeds[at : at + len(part.theta)]
            at += len(part.theta)
            left = self.misfit.variance(part.scale) - explained
            if len(self.seen):
                cross = fixed + part.scale**2 * own
                white = solve_triangular(part.factor, cross.T, lower=True)
                shift = solve_triangular(part.factor, part.residual.T, lower=True)
                values = values + shift.T @ white
                left = left - np.sum(white**2, axis=0)
            found.append(Latent(values, np.maximum(left, 1e-8)))
        return found

    def joint(self, query: Configurations, draws: int, generator: np.random.Generator) -> Array:
        """Return joint draws (draws, n) of latent log speeds.

        A row's draws don't depend on the rows that follow it, so that asking for more changes no answer.
        """
        values = np.vstack([latent.values for latent in self.latent(query)])
        part = np.repeat(np.arange(len(self.parts)), [len(one.theta) for one in self.parts])
        chosen = generator.permutation(draws) % len(values)
        noise = generator.standard_normal((len(query), draws))
        features = query.features
        _, known = self.misfit.latent(features, self.seen.observations.group)
        fixed, own = self.misfit.kernels(features, features, known, known)
        fixed_seen, own_seen = self.misfit.kernels(features, self.seen.features, known, self.seen.known)
        result = values[chosen]
        for index, one in enumerate(self.parts):
            covariance = fixed + one.scale**2 * own
            if len(self.seen):
                white = solve_triangular(one.factor, (fixed_seen + one.scale**2 * own_seen).T, lower=True)
                covariance = covariance - white.T @ white
            root = cholesky(covariance + 1e-6 * np.eye(len(query)), lower=True)
            mine = part[chosen] == index
            result[mine] += (root @ noise[:, mine]).T
        return np.asarray(result)


def infer(
    observations: Observations, prior: list[Draws], misfit: Misfit, generator: np.random.Generator
) -> Posterior:
    """Return the posterior of a job's coefficients; a second pass distrusts what the first can't explain."""
    seen = Seen.of(observations, misfit, prior[0].scope.form)
    if not len(observations):
        return _prior_only(seen, prior, misfit, generator)
    trust = np.ones(len(seen))
    theta, scale, scopes = _reweigh(seen, prior, misfit, trust, generator)
    if len(observations) >= 3:
        trust = _trust(seen, theta, seen.covariance(float(np.median(scale))))
        if np.any(trust < 0.67):
            theta, scale, scopes = _reweigh(seen, prior, misfit, trust, generator)
    count = len(observations)
    residual = seen.values[:count] - log_speed(seen.form.full(theta), observations.configurations)
    parts = []
    for one in np.unique(scale):
        mine = scale == one
        factor = cholesky(seen.covariance(float(one), trust)[:count, :count], lower=True)
        parts.append(Part(theta[mine], float(one), factor, residual[mine]))
    return Posterior(tuple(parts), seen, misfit, trust, scopes)


def _trust(seen: Seen, theta: Array, covariance: Array) -> Array:
    """Return by how much each value's precision is to be multiplied: its Student-t weight, at most 1."""
    residual = seen.values - seen.physics(theta)
    precision = np.linalg.inv(covariance)
    # leave-one-out errors of the process around the physics, in their own units
    error = (precision @ residual.mean(axis=0)) / np.diag(precision)
    variance = 1 / np.diag(precision) + residual.var(axis=0)
    return np.asarray(np.minimum(1.0, (FREEDOM + 1.0) / (FREEDOM + error**2 / variance)))


def _prior_only(seen: Seen, prior: list[Draws], misfit: Misfit, generator: np.random.Generator) -> Posterior:
    weights = np.outer([draws.scope.weight for draws in prior], misfit.errors.scales).ravel()
    counts = np.diff(np.floor(np.cumsum([0.0, *weights / weights.sum()]) * KEPT + 0.5).astype(int))
    parts = []
    for index, scale in enumerate(SCALES):
        pieces = []
        for draws, count in zip(prior, counts.reshape(len(prior), -1)[:, index], strict=True):
            level = draws.level_mean + np.sqrt(draws.level_variance) * generator.standard_normal(count)
            shape = draws.shape[np.arange(count) % len(draws.shape)]
            pieces.append(shape + level[:, None] * seen.form.level)
        theta = np.vstack(pieces)
        if len(theta):
            parts.append(Part(theta, scale, np.zeros((0, 0)), np.zeros((len(theta), 0))))
    return Posterior(
        tuple(parts), seen, misfit, np.zeros(0), _believed(prior, [draws.scope.weight for draws in prior])
    )


def _believed(prior: list[Draws], evidence: Sequence[float]) -> tuple[Believed, ...]:
    """Return the scopes with their probabilities; those after the observations are in proportion to ``evidence``."""
    before, after = np.array([draws.scope.weight for draws in prior]), np.asarray(evidence)
    shares = zip(prior, before / before.sum(), after / after.sum(), strict=True)
    return tuple(Believed(draws.scope, float(prior_share), float(share)) for draws, prior_share, share in shares)


@dataclass
class _Weighed:
    """Draws of one scope at one scale, with their logarithmic weights."""

    draws: Draws
    scale: float
    prior: float
    """Logarithm of the prior probability of scope and scale."""
    factor: Array
    """Lower Cholesky factor of what was seen, around the physics."""
    spread: Array
    """The same with the level unknown."""
    shape: Array
    """Of the draws, (draws, d), and their ``level``, (draws,)."""
    level: Array
    marginal: Array
    """Log likelihood of the draws' shapes, the level integrated out."""
    weight: Array

    @cached_property
    def evidence(self) -> float:
        return _log_sum(self.weight)

    def theta(self, rows: NDArray[np.intp] | slice = slice(None)) -> Array:
        """Return the draws at ``rows``, (rows, d)."""
        return np.asarray(self.shape[rows] + self.level[rows, None] * self.draws.scope.form.level)


def _reweigh(
    seen: Seen, prior: list[Draws], misfit: Misfit, trust: Array, generator: np.random.Generator
) -> tuple[Array, Array, tuple[Believed, ...]]:
    """Return ``KEPT`` equally likely draws (KEPT, d) of the posterior, the scale of each, and the scopes."""
    found = []
    residuals = [seen.values - seen.physics(draws.shape) for draws in prior]
    for scale, likely in zip(SCALES, misfit.errors.scales, strict=True):
        if likely == 0:
            continue
        covariance = seen.covariance(scale, trust)
        for draws, residual in zip(prior, residuals, strict=True):
            probability = np.log(likely) + np.log(draws.scope.weight)
            found.append(_weigh(seen, draws, scale, probability, covariance, residual, generator))
    if _effective(np.concatenate([one.weight for one in found])) < ENOUGH:
        order = np.argsort([-one.evidence for one in found])[:MODES]
        for index in order:
            if found[index].evidence > found[order[0]].evidence - FAR:
                found[index] = _with_draws_around_mode(seen, found[index], generator)
    weight = np.concatenate([one.weight for one in found])
    weight = np.exp(weight - _log_sum(weight))
    chosen = _systematic(weight / weight.sum(), KEPT, generator)
    # few of the draws are kept: only they are made
    ends = np.cumsum([len(one.weight) for one in found])
    bounds = np.searchsorted(chosen, [0, *ends])
    of_each = [chosen[bounds[i] : bounds[i + 1]] - (ends[i] - len(one.weight)) for i, one in enumerate(found)]
    theta = np.vstack([one.theta(rows) for one, rows in zip(found, of_each, strict=True)])
    # of each scope, whatever the scale
    evidence = np.array([one.evidence for one in found])
    scopes = np.exp(evidence - _log_sum(evidence))
    believed = _believed(prior, scopes.reshape(-1, len(prior)).sum(axis=0))
    return theta, np.repeat([one.scale for one in found], [len(rows) for rows in of_each]), believed


def _weigh(
    seen: Seen,
    draws: Draws,
    scale: float,
    probability: float,
    covariance: Array,
    residual: Array,
    generator: np.random.Generator,
) -> _Weighed:
    """Weigh a scope's cached shapes with the level integrated out, and draw their levels given what was seen."""
    factor = cholesky(covariance, lower=True)
    solved = cho_solve((factor, True), seen.level)
    spread = cholesky(covariance + draws.level_variance * np.outer(seen.level, seen.level), lower=True)
    marginal = gaussian_log_density(residual - draws.level_mean * seen.level, spread)
    precision = 1 / draws.level_variance + float(seen.level @ solved)
    mean = (draws.level_mean / draws.level_variance + residual @ solved) / precision
    level = mean + generator.standard_normal(len(mean)) / np.sqrt(precision)
    weight = probability + marginal - np.log(len(marginal))
    return _Weighed(draws, scale, probability, factor, spread, draws.shape, level, marginal, weight)


def _with_draws_around_mode(seen: Seen, own: _Weighed, generator: np.random.Generator) -> _Weighed:
    """Return the draws with others around their mode, weighed by the balance heuristic over both."""
    draws = own.draws
    extra = _around_mode(seen, own, generator)
    mine = own.theta()
    both = np.vstack([mine, extra.theta])
    likelihood = gaussian_log_density(seen.values - seen.physics(both), own.factor)
    density = draws.log_density(both)
    marginal = np.concatenate([own.marginal, _marginal(seen, own, extra.theta)])
    proposal = np.logaddexp(
        np.log(len(mine)) + density + likelihood - marginal, np.log(len(extra.theta)) + extra.log_density(both)
    )
    weight = own.prior + density + likelihood - proposal
    level = np.zeros(len(both))
    return _Weighed(draws, own.scale, own.prior, own.factor, own.spread, both, level, marginal, weight)


def _marginal(seen: Seen, own: _Weighed, theta: Array) -> Array:
    """Return the likelihood of the shapes of ``theta`` (draws, d) with the level integrated out."""
    draws, direction = own.draws, seen.form.level
    weights = cho_solve((draws.factor, True), direction) * draws.level_variance
    shape = theta - (theta @ weights)[:, None] * direction
    return gaussian_log_density(seen.values - seen.physics(shape) - draws.level_mean * seen.level, own.spread)


@dataclass(frozen=True)
class _Local:
    theta: Array
    center: Array
    factor: Array
    freedom: float

    def log_density(self, theta: Array) -> Array:
        """Return the log density of the multivariate Student-t at ``theta``."""
        white = solve_triangular(self.factor, (theta - self.center).T, lower=True)
        size = len(white)
        constant = gammaln((self.freedom + size) / 2) - gammaln(self.freedom / 2)
        constant -= 0.5 * size * np.log(self.freedom * np.pi) + np.sum(np.log(np.diag(self.factor)))
        return np.asarray(constant - 0.5 * (self.freedom + size) * np.log1p(np.sum(white**2, axis=0) / self.freedom))


def _around_mode(seen: Seen, own: _Weighed, generator: np.random.Generator) -> _Local:
    start = own.theta(np.argmax(own.weight, keepdims=True))[0]
    mode = find_mode(seen, own.draws.scope, own.factor @ own.factor.T, start)
    root = cholesky(1.1 * mode.covariance, lower=True)
    freedom = 8.0
    scale = np.sqrt(freedom / generator.chisquare(freedom, AROUND))
    theta = mode.theta + scale[:, None] * (generator.standard_normal((AROUND, len(root))) @ root.T)
    return _Local(theta, mode.theta, root, freedom)


def _effective(log_weights: Array) -> float:
    return float(np.exp(2 * _log_sum(log_weights) - _log_sum(2 * log_weights)))


def _log_sum(values: Array) -> float:
    """Return the logarithm of the sum of exponentials, as SciPy's to the bit, in a fifth of its time."""
    most = values.max()
    if not np.isfinite(most):
        return float(logsumexp(values))
    largest = values == most
    count = np.float64(np.count_nonzero(largest))
    rest = np.sum(np.exp(np.where(largest, -np.inf, values) - most))
    return float(np.log1p(rest / count) + np.log(count) + most)


def _systematic(weights: Array, count: int, generator: np.random.Generator) -> NDArray[np.intp]:
    """Return ``count`` indices drawn in proportion to ``weights`` with the least scatter."""
    points = (np.arange(count) + generator.random()) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), points), len(weights) - 1)
