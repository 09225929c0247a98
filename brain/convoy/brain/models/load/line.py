"""What one worker or one server uses, from a line in logarithms whose coefficients jobs partly share.

    y(x) = a + b . x + error        (a, b) ~ N(mean, covariance) among jobs

``a`` is the use at the job's own usual size, which is what jobs differ in most; ``b`` says how it grows. Mean,
covariance and error are learned from the history by expectation-maximization, with defaults that count for a job or
two; jobs of one template have a mean of their own, shrunk likewise. That a level goes with a slope (a server that is
busy all the time stays so, with more of them) is in the covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from convoy.brain.models.throughput.physics import Array

LEVEL_SD = 1.5
"""Of the logarithm of use among jobs of which nothing is known; from 1 GiB to 20 within two of them."""
DEFAULT_JOBS = 2.0
"""How many jobs the default counts for."""
DEFAULT_ROWS = 6.0
"""How many readings the default of the error counts for; and degrees of freedom that an interval starts with."""
ROUNDS = 12


@dataclass(frozen=True)
class Readings:
    """One job's readings of a quantity, one a size."""

    size: Array
    """Coordinates (k, d), logarithms in units of the job's usual."""
    used: Array
    """What was used, ``y`` (k,)."""

    def __len__(self) -> int:
        return len(self.used)

    @property
    def design(self) -> Array:
        """A column for the level, then those of the slopes, (k, 1 + d)."""
        return _design(self.size)


@dataclass(frozen=True)
class Line:
    """What is known of a job's level and slopes, and how far readings scatter around them."""

    mean: Array
    """(1 + d,)."""
    covariance: Array
    """(1 + d, 1 + d)."""
    error: float
    """Standard deviation of one reading."""
    freedom: float
    """Degrees of freedom of that."""

    def given(self, readings: Readings) -> Line:
        """Return what is known once a job has shown ``readings``."""
        if not len(readings):
            return self
        design = readings.design
        precision = np.linalg.inv(self.covariance)
        covariance = np.asarray(np.linalg.inv(precision + design.T @ design / self.error**2), dtype=np.float64)
        mean = covariance @ (precision @ self.mean + design.T @ readings.used / self.error**2)
        return Line(mean, np.asarray(covariance, dtype=np.float64), self.error, self.freedom)

    def at(self, size: Array, level: float) -> Array:
        """Return mean, lower and upper (n, 3) of one more reading's ``y`` at sizes (n, d)."""
        design = _design(size)
        middle = design @ self.mean
        spread = np.sqrt(np.sum((design @ self.covariance) * design, axis=1) + self.error**2)
        half = float(student.ppf(0.5 + level / 2, self.freedom)) * spread
        return np.column_stack([middle, middle - half, middle + half])


@dataclass(frozen=True)
class Default:
    """What is assumed of jobs of which nothing is known."""

    slopes: tuple[float, ...]
    slope_sd: float
    error: float

    def line(self, level: float) -> Line:
        """Return it, given what jobs use on the whole."""
        covariance: Array = np.diag([LEVEL_SD, *(self.slope_sd for _ in self.slopes)]) ** 2
        return Line(np.array([level, *self.slopes]), covariance, self.error, DEFAULT_ROWS)


def _design(size: Array) -> Array:
    return np.column_stack([np.ones(len(size)), size])


def learn_line(default: Default, jobs: Sequence[Readings]) -> Line:
    """Return the line of one more job, from those of the history; at least one has readings."""
    everything = default.line(float(np.mean([job.used.mean() for job in jobs])))
    line = everything
    rows = sum(len(job) for job in jobs)
    for _ in range(ROUNDS):
        known = [line.given(job) for job in jobs]
        means = np.array([one.mean for one in known])
        count = len(jobs) + DEFAULT_JOBS
        mean = (means.sum(axis=0) + DEFAULT_JOBS * everything.mean) / count
        away = means - mean
        scatter = away.T @ away + np.sum([one.covariance for one in known], axis=0)
        covariance = (scatter + DEFAULT_JOBS * everything.covariance) / count
        squares = sum(_squares(job, one) for job, one in zip(jobs, known, strict=True))
        error = np.sqrt((squares + DEFAULT_ROWS * default.error**2) / (rows + DEFAULT_ROWS))
        line = Line(mean, covariance, float(error), DEFAULT_ROWS + rows - len(jobs))
    # that of the mean itself is added: it is known from few
    return Line(line.mean, line.covariance * (1 + 1 / (len(jobs) + DEFAULT_JOBS)), line.error, line.freedom)


def of_relatives(line: Line, relatives: Sequence[Readings]) -> Line:
    """Return the line of a job, given readings of others of its template: their mean, and half their variance."""
    known = [line.given(job) for job in relatives if len(job)]
    if not known:
        return line
    means = np.array([one.mean for one in known])
    weight = len(known) / (len(known) + 1.0)
    mean = line.mean + weight * (means.mean(axis=0) - line.mean)
    away = means - mean
    own = (away.T @ away + np.sum([one.covariance for one in known], axis=0) + line.covariance) / (len(known) + 1.0)
    return Line(mean, own, line.error, line.freedom)


def _squares(job: Readings, line: Line) -> float:
    """Return the expected squared error of a job's readings around its line."""
    design = job.design
    left = np.sum((design @ line.covariance) * design)
    return float(np.sum((job.used - design @ line.mean) ** 2) + left)
