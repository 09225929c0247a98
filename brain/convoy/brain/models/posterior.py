"""What a job's few observations say about its coefficients, and about speeds at other configurations.

Model of a job: log speed at x = physics(theta, x) + misfit(x) + noise. ``theta`` comes from a mixture of Gaussians,
one a scope of history; ``misfit`` is a Gaussian process (what the physics gets wrong, alike at nearby
configurations); ``noise`` is drift between sessions plus each row's own.

Inference is importance reweighting of cached prior draws, because Gaussian approximations fail at one and two
observations. The level of a job (how fast its machine is) is drawn exactly given the rest, so that draws aren't
wasted on it. Where the effective number of draws is small, draws around the posterior's mode are mixed in (multiple
importance sampling with the balance heuristic), so that weights stay bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.special import gammaln, logsumexp

from convoy.brain.models.frame import Observations
from convoy.brain.models.physics import LEVEL, SIZE, Array, Configurations, jacobian, log_speed

ENOUGH = 200.0
"""Effective draws below which draws around the mode are added."""

KEPT = 512
"""Equally likely draws that a posterior keeps."""

FREEDOM = 4.0
"""Degrees of freedom of the Student-t weights of observations."""


@dataclass(frozen=True)
class Misfit:
    """What the physics gets wrong, and what disturbs a measurement; all of log speed."""

    sd: float = 0.10
    length: tuple[float, float, float] = (1.0, 1.0, 1.5)
    """Distance in log workers, log nodes and log batch over which errors are alike."""
    session_sd: float = 0.05
    """Drift between sessions, which measuring longer doesn't remove."""

    def covariance(self, left: Array, right: Array) -> Array:
        """Return the misfit's covariance (n, m) between features (n, 3) and (m, 3); Matern 3/2."""
        scale = np.asarray(self.length)
        difference = left[:, None, :] / scale - right[None, :, :] / scale
        distance = np.sqrt(3.0 * np.sum(difference**2, axis=2))
        return np.asarray(self.sd**2 * (1.0 + distance) * np.exp(-distance))

    def observed(self, observations: Observations) -> Array:
        """Return the covariance (k, k) of observations around the physics, before any is distrusted."""
        features = observations.configurations.features
        noise = observations.variance + self.session_sd**2 / observations.sessions
        return self.covariance(features, features) + np.diag(noise)


@dataclass(frozen=True)
class Scope:
    """A Gaussian that history, or its absence, gives for a job's coefficients."""

    name: str
    weight: float
    mean: Array
    covariance: Array
    jobs: int
    """Jobs whose evidence formed it."""


@dataclass(frozen=True)
class Draws:
    """Draws of one scope, split into shape and level: theta = shape + level * LEVEL, the two independent."""

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
        weights = cho_solve((factor, True), LEVEL)
        precision = float(LEVEL @ weights)
        theta = scope.mean + generator.standard_normal((count, SIZE)) @ factor.T
        level = theta @ weights / precision
        return cls(
            scope, theta - level[:, None] * LEVEL, float(scope.mean @ weights / precision), 1 / precision, factor
        )

    def log_density(self, theta: Array) -> Array:
        """Return the scope's log density at ``theta`` (draws, SIZE)."""
        white = solve_triangular(self.factor, (theta - self.scope.mean).T, lower=True)
        log_determinant = float(np.sum(np.log(np.diag(self.factor))))
        return np.asarray(-0.5 * np.sum(white**2, axis=0) - log_determinant - 0.5 * SIZE * np.log(2 * np.pi))


def _gaussian_log_density(residual: Array, factor: Array) -> Array:
    """Return log N(residual; 0, L L') for rows of ``residual`` (draws, k)."""
    white = solve_triangular(factor, residual.T, lower=True)
    constant = float(np.sum(np.log(np.diag(factor)))) + 0.5 * len(factor) * np.log(2 * np.pi)
    return np.asarray(-0.5 * np.sum(white**2, axis=0) - constant)


@dataclass(frozen=True)
class Mode:
    """A posterior mode and the covariance of a Gaussian there."""

    theta: Array
    covariance: Array
    value: Array
    """Log speeds (k,) there, without the misfit."""
    slope: Array
    """Their derivative (k, SIZE)."""

    def evidence(self, observations: Observations, misfit: Array, mean: Array, covariance: Array) -> float:
        """Return the log likelihood of the observations under a Gaussian prior, the physics linear around the mode.

        ``misfit`` is the observations' covariance (k, k) around the physics.
        """
        residual = observations.log_speed - self.value - self.slope @ (mean - self.theta)
        factor = cho_factor(misfit + self.slope @ covariance @ self.slope.T, lower=True)
        return float(-0.5 * residual @ cho_solve(factor, residual) - np.sum(np.log(np.diag(factor[0]))))


def find_mode(
    observations: Observations, scope: Scope, covariance: Array, start: Array | None = None, steps: int = 12
) -> Mode:
    """Climb to the posterior mode of ``theta`` by damped Gauss-Newton."""
    precision = np.linalg.inv(scope.covariance)
    factor = cho_factor(covariance, lower=True)
    theta = scope.mean.copy() if start is None else start.copy()

    def objective(candidate: Array) -> float:
        residual = observations.log_speed - log_speed(candidate[None], observations.configurations)[0]
        away = candidate - scope.mean
        return float(0.5 * residual @ cho_solve(factor, residual) + 0.5 * away @ precision @ away)

    best = objective(theta)
    for _ in range(steps):
        value, slope = jacobian(theta, observations.configurations)
        weighted = cho_solve(factor, slope)
        hessian = slope.T @ weighted + precision
        gradient = weighted.T @ (observations.log_speed - value) - precision @ (theta - scope.mean)
        move = np.linalg.solve(hessian, gradient)
        move *= min(1.0, 3.0 / max(1e-12, float(np.max(np.abs(move)))))
        before = best
        for damping in (1.0, 0.5, 0.25, 0.0625):
            attempt = objective(theta + damping * move)
            if attempt < best:
                theta, best = theta + damping * move, attempt
                break
        if before - best < 1e-4:
            break
    value, slope = jacobian(theta, observations.configurations)
    hessian = slope.T @ cho_solve(factor, slope) + precision
    inverse = np.linalg.inv(hessian)
    return Mode(theta, (inverse + inverse.T) / 2, value, slope)


@dataclass(frozen=True)
class Posterior:
    """Equally likely draws of a job's coefficients, with the misfit conditioned on its observations."""

    theta: Array
    observations: Observations
    misfit: Misfit
    factor: Array
    """Lower Cholesky factor of the observations' covariance (k, k), the distrusted ones inflated."""
    residual: Array
    """Observed minus physics, (draws, k)."""

    def latent(self, query: Configurations) -> tuple[Array, Array]:
        """Return log speed of each draw (draws, n), misfit's mean included, and the misfit's variance left (n,)."""
        values = log_speed(self.theta, query)
        left = np.full(len(query), self.misfit.sd**2)
        if len(self.observations):
            cross = self.misfit.covariance(query.features, self.observations.configurations.features)
            white = solve_triangular(self.factor, cross.T, lower=True)
            values = values + self.residual @ cho_solve((self.factor, True), cross.T)
            left = np.maximum(left - np.sum(white**2, axis=0), 1e-8)
        return values, left

    def joint(self, query: Configurations, draws: int, generator: np.random.Generator) -> Array:
        """Return joint draws (draws, n) of latent log speeds.

        A row's draws don't depend on the rows that follow it, so that asking for more changes no answer.
        """
        values, _ = self.latent(query)
        picked = values[generator.permutation(draws) % len(values)]
        noise = generator.standard_normal((len(query), draws))
        covariance = self.misfit.covariance(query.features, query.features)
        if len(self.observations):
            cross = self.misfit.covariance(query.features, self.observations.configurations.features)
            covariance = covariance - cross @ cho_solve((self.factor, True), cross.T)
        root = cholesky(covariance + 1e-8 * np.eye(len(query)), lower=True)
        return np.asarray(picked + (root @ noise).T)


def infer(
    observations: Observations, prior: list[Draws], misfit: Misfit, generator: np.random.Generator
) -> Posterior:
    """Return the posterior of a job's coefficients; a second pass distrusts what the first can't explain."""
    if not len(observations):
        return _prior_only(observations, prior, misfit, generator)
    covariance = misfit.observed(observations)
    posterior = _reweigh(observations, prior, misfit, covariance, generator)
    if len(observations) < 3:
        return posterior
    distrust = _distrust(posterior, covariance)
    if np.all(distrust < 1.5):
        return posterior
    return _reweigh(
        observations, prior, misfit, covariance + np.diag(np.diag(covariance) * (distrust - 1)), generator
    )


def _distrust(posterior: Posterior, covariance: Array) -> Array:
    """Return by how much each observation's variance is to be multiplied: its Student-t weight, inverted."""
    precision = np.linalg.inv(covariance)
    spread = np.cov(posterior.residual.T).reshape(covariance.shape)
    center = posterior.residual.mean(axis=0)
    # leave-one-out errors of the process around the physics, in their own units
    error = (precision @ center) / np.diag(precision)
    variance = 1 / np.diag(precision) + np.diag(spread)
    return np.asarray(np.maximum(1.0, (FREEDOM + error**2 / variance) / (FREEDOM + 1.0)))


def _prior_only(
    observations: Observations, prior: list[Draws], misfit: Misfit, generator: np.random.Generator
) -> Posterior:
    weights = np.array([draws.scope.weight for draws in prior])
    counts = np.floor(np.cumsum(weights / weights.sum()) * KEPT + 0.5).astype(int)
    pieces = []
    for draws, count in zip(prior, np.diff(np.concatenate([[0], counts])), strict=True):
        shape = draws.shape[np.arange(count) % len(draws.shape)]
        level = draws.level_mean + np.sqrt(draws.level_variance) * generator.standard_normal(count)
        pieces.append(shape + level[:, None] * LEVEL)
    empty = np.zeros((0, 0))
    return Posterior(np.vstack(pieces), observations, misfit, empty, np.zeros((KEPT, 0)))


def _reweigh(
    observations: Observations, prior: list[Draws], misfit: Misfit, covariance: Array, generator: np.random.Generator
) -> Posterior:
    factor = cholesky(covariance, lower=True)
    ones = np.ones(len(observations))
    solved = cho_solve((factor, True), ones)
    thetas, weights, evidences = [], [], []
    marginals = []
    for draws in prior:
        level_precision = 1 / draws.level_variance + float(ones @ solved)
        spread = cholesky(covariance + draws.level_variance * np.outer(ones, ones), lower=True)
        residual = observations.log_speed - log_speed(draws.shape, observations.configurations)
        # log speed falls by the level: T scales with exp(level)
        marginal = _gaussian_log_density(residual + draws.level_mean, spread)
        mean = (draws.level_mean / draws.level_variance - residual @ solved) / level_precision
        level = mean + generator.standard_normal(len(mean)) / np.sqrt(level_precision)
        thetas.append(draws.shape + level[:, None] * LEVEL)
        marginals.append(marginal)
        weights.append(np.log(draws.scope.weight) + marginal - np.log(len(marginal)))
        evidences.append(logsumexp(weights[-1]))
    total = logsumexp(evidences)
    if _effective(np.concatenate(weights)) < ENOUGH:
        best = int(np.argmax(evidences))
        start = thetas[best][int(np.argmax(weights[best]))]
        extra = _around_mode(observations, prior[best], covariance, factor, start, generator)
        # the balance heuristic over this scope's own draws and those around its mode
        own = thetas[best]
        both = np.vstack([own, extra.theta])
        count_own, count_extra = len(own), len(extra.theta)
        residual = observations.log_speed - log_speed(both, observations.configurations)
        likelihood = _gaussian_log_density(residual, factor)
        density = prior[best].log_density(both)
        marginal = np.concatenate([marginals[best], _marginal(prior[best], extra.theta, observations, covariance)])
        proposal = np.logaddexp(
            np.log(count_own) + density + likelihood - marginal, np.log(count_extra) + extra.log_density(both)
        )
        thetas[best] = both
        weights[best] = np.log(prior[best].scope.weight) + density + likelihood - proposal
        evidences[best] = logsumexp(weights[best])
        total = logsumexp(evidences)
    theta = np.vstack(thetas)
    weight = np.exp(np.concatenate(weights) - total)
    picked = _systematic(weight / weight.sum(), KEPT, generator)
    residual = observations.log_speed - log_speed(theta[picked], observations.configurations)
    return Posterior(theta[picked], observations, misfit, factor, residual)


def _marginal(draws: Draws, theta: Array, observations: Observations, covariance: Array) -> Array:
    """Return the likelihood of the shapes of ``theta`` (draws, SIZE) with the level integrated out."""
    weights = cho_solve((draws.factor, True), LEVEL) * draws.level_variance
    shape = theta - (theta @ weights)[:, None] * LEVEL
    spread = cholesky(covariance + draws.level_variance, lower=True)
    residual = observations.log_speed - log_speed(shape, observations.configurations)
    return _gaussian_log_density(residual + draws.level_mean, spread)


@dataclass(frozen=True)
class _Local:
    theta: Array
    center: Array
    factor: Array
    freedom: float

    def log_density(self, theta: Array) -> Array:
        """Return the log density of the multivariate Student-t at ``theta``, up to what cancels nowhere."""
        white = solve_triangular(self.factor, (theta - self.center).T, lower=True)
        constant = gammaln((self.freedom + SIZE) / 2) - gammaln(self.freedom / 2)
        constant -= 0.5 * SIZE * np.log(self.freedom * np.pi) + np.sum(np.log(np.diag(self.factor)))
        return np.asarray(constant - 0.5 * (self.freedom + SIZE) * np.log1p(np.sum(white**2, axis=0) / self.freedom))


def _around_mode(
    observations: Observations,
    draws: Draws,
    covariance: Array,
    factor: Array,
    start: Array,
    generator: np.random.Generator,
    count: int = 1024,
) -> _Local:
    mode = find_mode(observations, draws.scope, covariance, start)
    root = cholesky(1.2 * mode.covariance, lower=True)
    freedom = 5.0
    scale = np.sqrt(freedom / generator.chisquare(freedom, count))
    theta = mode.theta + scale[:, None] * (generator.standard_normal((count, SIZE)) @ root.T)
    return _Local(theta, mode.theta, root, freedom)


def _effective(log_weights: Array) -> float:
    return float(np.exp(2 * logsumexp(log_weights) - logsumexp(2 * log_weights)))


def _systematic(
    weights: Array, count: int, generator: np.random.Generator
) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Return ``count`` indices drawn in proportion to ``weights`` with the least scatter."""
    points = (np.arange(count) + generator.random()) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), points), len(weights) - 1)
