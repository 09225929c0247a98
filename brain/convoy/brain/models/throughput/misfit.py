"""What the physics gets wrong: Gaussian processes over configurations, of log speed and of what nodes show.

    log speed error(x) = shared(x) + own(x) + noise        shared by all jobs of the history's kind, own to one job
    a channel's error  = own_c(x) + noise_c

Matern 3/2 over the logarithms of workers, nodes, servers and batch. What is shared is learned from the history's
residuals (``Field``); a new job starts with its mean and what is left open of it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular
from scipy.linalg.blas import strmm

from convoy.brain.models.throughput import channels
from convoy.brain.models.throughput.frame import Observations
from convoy.brain.models.throughput.physics import Array, Form

SCALES = (0.5, 1.0, 2.0, 4.0)
"""How many times as far off as usual the physics may be for a job: some jobs' networks defy any formula."""


ROWS = 128
"""Configurations whose covariance with the history is worked out together: what a processor's cache holds."""

PLACE = slice(1, 3)
"""Of the features, where a job's parts lie: nodes and servers."""


def matern(left: Array, right: Array, length: Array) -> Array:
    """Return the correlation (n, m) between features (n, d) and (m, d); Matern 3/2."""
    distance = scaled_distance(left, right, length)
    decay: Array = np.negative(distance)
    np.exp(decay, out=decay)
    distance += 1.0
    decay *= distance
    return decay


def scaled_distance(left: Array, right: Array, length: Array) -> Array:
    """Return the square root of three times the distance (n, m) in units of ``length`` (d,)."""
    a, b = left * (np.sqrt(3.0) / length), right * (np.sqrt(3.0) / length)
    squared: Array = a @ (-2.0 * b.T)
    squared += np.sum(a * a, axis=1)[:, None]
    squared += np.sum(b * b, axis=1)
    np.maximum(squared, 0.0, out=squared)
    return np.sqrt(squared, out=squared)


@dataclass(frozen=True)
class Errors:
    """How large the errors are and how far they reach; standard deviations of logarithms."""

    own: float = 0.10
    place: float = 0.04
    """A part of a job's own errors that depends on nodes and servers alone: how its tensors fall on them."""
    shared: float = 0.05
    length: tuple[float, ...] = (1.0, 1.0, 1.0, 1.5)
    """Distance in log workers, nodes, servers and batch over which a job's own errors are alike."""
    place_length: float = 0.25
    """Distance in log nodes and servers over which ``place`` is alike."""
    alike: float = 0.5
    """Correlation of what jobs share between groups: jobs of one group have the same hardware."""
    shared_length: tuple[float, ...] = (0.7, 0.7, 0.7, 1.0)
    """The same of the shared ones."""
    session: float = 0.05
    """Drift between sessions, which measuring longer doesn't remove."""
    scales: tuple[float, ...] = (0.25, 0.5, 0.2, 0.05)
    """How likely a job is to be of each of ``SCALES``."""
    channel: tuple[float, ...] = (0.3, 0.3, 0.1)
    channel_noise: tuple[float, ...] = (0.1, 0.1, 0.05)

    @property
    def lengths(self) -> Array:
        """``length`` as an array (4,)."""
        return np.asarray(self.length)

    @property
    def shared_lengths(self) -> Array:
        """``shared_length`` as an array (4,)."""
        return np.asarray(self.shared_length)


@dataclass(frozen=True)
class Field:
    """The shared error, conditioned on the history's residuals at ``places`` (N, 4); without any, as assumed."""

    places: Array = field(default_factory=lambda: np.zeros((0, 4)))
    groups: NDArray[np.object_] = field(default_factory=lambda: np.zeros(0, dtype=object))
    """Of each row its job's group, (N,)."""
    jobs: NDArray[np.object_] = field(default_factory=lambda: np.zeros(0, dtype=object))
    """Of each row its job, (N,)."""
    residual: Array = field(default_factory=lambda: np.zeros(0))
    covariance: Array = field(default_factory=lambda: np.zeros((0, 0)))
    """Of the residuals, (N, N)."""

    @cached_property
    def root(self) -> Array:
        """Such that what the residuals take from a covariance is (root k)' (root k), (N, N)."""
        if not len(self.residual):
            return self.covariance
        lower = cholesky(self.covariance, lower=True)
        return np.asarray(solve_triangular(lower, np.eye(len(lower)), lower=True))

    @cached_property
    def single_root(self) -> NDArray[np.float32]:
        """``root`` in single precision, columns first."""
        return np.asfortranarray(self.root, dtype=np.float32)

    @cached_property
    def weights(self) -> Array:
        """Of the residuals in the mean, (N,)."""
        return np.asarray(self.root.T @ (self.root @ self.residual))

    def without(self, jobs: Collection[str]) -> Field:
        """Return what the other jobs' residuals say."""
        kept = np.flatnonzero(~np.isin(self.jobs, list(jobs)))
        if len(kept) == len(self.jobs):
            return self
        covariance = self.covariance[np.ix_(kept, kept)]
        return Field(self.places[kept], self.groups[kept], self.jobs[kept], self.residual[kept], covariance)


@dataclass(frozen=True)
class Misfit:
    """The errors' sizes with what history taught of the shared one."""

    errors: Errors = field(default_factory=Errors)
    shared: Field = field(default_factory=Field)

    def latent(self, features: Array, group: str) -> tuple[Array, Array]:
        """Return mean (n,) of the error of log speed, and rows (n, N) of what history takes from its covariance."""
        if not len(self.shared.places):
            return np.zeros(len(features)), np.zeros((len(features), 0))
        kin = np.where(self.shared.groups == group, 1.0, self.errors.alike)
        starts = range(0, max(1, len(features)), ROWS)
        blocks = [self._latent(features[at : at + ROWS], self.errors.shared**2 * kin) for at in starts]
        return np.concatenate([mean for mean, _ in blocks]), np.vstack([known for _, known in blocks])

    def _latent(self, features: Array, variances: Array) -> tuple[Array, Array]:
        cross = matern(features, self.shared.places, self.errors.shared_lengths)
        cross *= variances
        # a triangle, in single precision: the largest part of an answer's time, of variances within 1e-6
        known = strmm(1.0, self.shared.single_root, cross.astype(np.float32).T, lower=1).T
        return np.asarray(cross @ self.shared.weights), np.asarray(known, dtype=np.float64)

    def kernels(self, left: Array, right: Array, known_left: Array, known_right: Array) -> tuple[Array, Array]:
        """Return the covariances (n, m) of the error of log speed: what all jobs share of it, and a job's own.

        ``known`` are the rows that ``latent`` returned.
        """
        e = self.errors
        shared = e.shared**2 * matern(left, right, e.shared_lengths)
        own = e.own**2 * matern(left, right, e.lengths)
        own += e.place**2 * matern(left[:, PLACE], right[:, PLACE], np.full(2, e.place_length))
        return np.asarray(shared - known_left @ known_right.T), own

    def variance(self, scale: float) -> float:
        """Return the variance of the error of log speed before history or job showed any."""
        return scale**2 * (self.errors.own**2 + self.errors.place**2) + self.errors.shared**2


def channel_covariance(errors: Errors, channel: NDArray[np.intp], features: Array) -> Array:
    """Return the covariance (r, r) of readings of ``channel`` (r,) at ``features`` (r, 4), noise included."""
    sd, noise = np.asarray(errors.channel)[channel], np.asarray(errors.channel_noise)[channel]
    same = channel[:, None] == channel[None, :]
    own = np.where(same, sd[:, None] * sd[None, :] * matern(features, features, errors.lengths), 0.0)
    return np.asarray(own + np.diag(noise**2))


@dataclass(frozen=True)
class Seen:
    """One job's observations as one vector: log speeds (k), then the channels' readings (r)."""

    observations: Observations
    form: Form
    values: Array
    """(k + r,): log speeds less the shared error's mean, then readings."""
    channel: NDArray[np.intp]
    place: NDArray[np.intp]
    features: Array
    known: Array
    """Of the speeds' features, what ``Misfit.latent`` returned."""
    fixed: Array
    """Covariance (k + r, k + r) around the physics, but for a job's own errors of speed."""
    own: Array
    """The latter's, (k, k), at scale 1."""
    level: Array
    """How each value moves with the job's level: -1 for speeds, 0 for readings."""

    @classmethod
    def of(cls, observations: Observations, misfit: Misfit, form: Form) -> Seen:
        """Return the vector and its covariance."""
        c, count = observations.configurations, len(observations)
        samples = np.log(c.workers * c.batch_size * c.accumulation_steps)
        readings, channel, place = channels.readings(observations, samples)
        features = c.features
        mean, known = misfit.latent(features, observations.group)
        shared, own = misfit.kernels(features, features, known, known)
        fixed = np.zeros((count + len(readings),) * 2)
        noise = observations.variance + misfit.errors.session**2 / observations.sessions
        fixed[:count, :count] = shared + np.diag(noise)
        fixed[count:, count:] = channel_covariance(misfit.errors, channel, features[place])
        level = np.concatenate([-np.ones(count), np.zeros(len(readings))])
        values = np.concatenate([observations.log_speed - mean, readings])
        return cls(observations, form, values, channel, place, features, known, fixed, own, level)

    def __len__(self) -> int:
        return len(self.values)

    def covariance(self, scale: float, trust: Array | None = None) -> Array:
        """Return the covariance (k + r, k + r) around the physics; ``trust`` (k + r,) divides the variances."""
        total = self.fixed.copy()
        count = len(self.own)
        total[:count, :count] += scale**2 * self.own
        if trust is not None:
            total[np.diag_indices_from(total)] /= trust
        return total

    def physics(self, theta: Array) -> Array:
        """Return what the physics makes of the vector, (draws, k + r), for ``theta`` (draws, coefficients)."""
        return channels.physics(self.form.full(theta), self.observations.configurations, self.channel, self.place)

    def jacobian(self, theta: Array, step: float = 1e-4) -> tuple[Array, Array]:
        """Return the vector (k + r,) at one ``theta`` (SIZE,) and its derivative (k + r, SIZE)."""
        size = len(theta)
        moves = np.vstack([np.zeros(size), step * np.eye(size), -step * np.eye(size)])
        values = self.physics(theta + moves)
        return values[0], (values[1 : size + 1] - values[size + 1 :]).T / (2 * step)
