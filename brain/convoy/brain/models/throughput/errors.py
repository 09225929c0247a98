"""Learns from the history how large the physics' errors are, how far they reach, and what all jobs share of them.

By the likelihood of all jobs together: the physics is linear around each job's mode, its coefficients, spread around
that mode as they are among jobs, integrated out, so that N numbers of the whole history are one Gaussian. (Around the
jobs' mean it would be linear too far off, and that error be taken for the physics' own.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, block_diag, cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import softmax

from convoy.brain.models.throughput.frame import Observations
from convoy.brain.models.throughput.misfit import PLACE, SCALES, Errors, Field, Misfit, Seen
from convoy.brain.models.throughput.mode import Mode, Scope
from convoy.brain.models.throughput.physics import Array

DOUBT = (3.0, 3.0, 1.0)
"""By how much the channels' errors exceed what they are in sample, where the coefficients that explain them were
fitted to them as well: three times for cores in use, found on jobs left out; seconds of compute are what they are."""

MOST_JOBS = 20
MOST_ROWS = 20
"""Of the history, what errors' sizes are learned from; they are few, and the matrix is of all rows together."""

PULL = 0.7
"""Standard deviation, in logarithms, of how far sizes are expected to lie from the defaults."""
FARTHEST = 1.3
ITERATIONS = 25

FIELD_ROWS = 600
"""Rows of the history that the shared error is conditioned on."""
FEWEST_ROWS = 4
"""The same of one job; of more jobs than that allows, evenly spaced ones are taken."""


@dataclass(frozen=True)
class Fitted:
    """A job of the history with its mode, and how many times the usual its own errors are."""

    name: str
    observations: Observations
    mode: Mode
    scale: float = 1.0


@dataclass(frozen=True)
class _Rows:
    """Rows of all jobs as one vector."""

    job: Array
    channel: Array
    """-1: speed."""
    group: NDArray[np.object_]
    features: Array
    noise: Array
    """Variance that the rows bring, and sessions (for speeds)."""
    sessions: Array
    residual: Array
    scale: Array
    """Of the job's own errors."""
    coefficients: Array
    """Covariance that the coefficients' prior leaves, (N, N), block by job."""


def _rows(jobs: Sequence[Fitted], scope: Scope) -> _Rows:
    pieces = []
    blocks = []
    for index, fitted in enumerate(jobs):
        one = fitted.observations
        seen = Seen.of(one, Misfit(), scope.form)
        value, slope = seen.jacobian(fitted.mode.theta)
        count, readings = len(one), len(seen.place)
        pieces.append(
            (
                np.full(len(seen), index),
                np.concatenate([-np.ones(count), seen.channel]),
                np.full(len(seen), one.group, dtype=object),
                np.vstack([seen.features, seen.features[seen.place]]),
                np.concatenate([one.variance, np.zeros(readings)]),
                np.concatenate([one.sessions, np.ones(readings)]),
                seen.values - value,
                np.full(len(seen), fitted.scale),
            )
        )
        blocks.append(slope @ scope.covariance @ slope.T)
    joined = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    job, channel, group, features, noise, sessions, residual, scale = joined
    coefficients = block_diag(*blocks)
    return _Rows(job, channel, group, features, noise, sessions, residual, scale, coefficients)


@dataclass(frozen=True)
class _Parts:
    """The covariance (N, N) of all rows, and what its derivatives are made of."""

    total: Array
    far: Array
    near: Array
    own: Array
    kin: Array
    place: Array
    apart: Array


class _Likelihood:
    """The log likelihood of all rows as a function of the errors' sizes, and its gradient."""

    def __init__(self, rows: _Rows) -> None:
        self.rows = rows
        speed = rows.channel < 0
        same = rows.job[:, None] == rows.job[None, :]
        self.channels = sorted({int(channel) for channel in rows.channel[~speed]})
        scale = rows.scale[:, None] * rows.scale[None, :]
        both = speed[:, None] & speed[None, :]
        self.speed = speed
        self.own = np.where(same & both, scale, 0.0)
        self.both = both.astype(np.float64)
        self.kin = np.where(both & (rows.group[:, None] == rows.group[None, :]), 1.0, 0.0)
        masks = [rows.channel == channel for channel in self.channels]
        self.readings = [np.where(same & mask[:, None] & mask[None, :], 1.0, 0.0) for mask in masks]
        self.masks = masks
        self.apart = [(column[:, None] - column[None, :]) ** 2 for column in rows.features.T]

    def covariance(self, errors: Errors) -> Array:
        """Return the covariance (N, N) of all rows."""
        return self._parts(errors).total

    def _parts(self, errors: Errors) -> _Parts:
        rows = self.rows
        far = np.sqrt(3.0 * np.tensordot(errors.lengths**-2.0, np.asarray(self.apart), axes=1))
        near = np.sqrt(3.0 * np.tensordot(errors.shared_lengths**-2.0, np.asarray(self.apart), axes=1))
        decay, near_decay = np.exp(-far), np.exp(-near)
        apart = np.sqrt(3.0 * np.sum(self.apart[PLACE], axis=0)) / errors.place_length
        place = errors.place**2 * self.own * np.exp(-apart)
        own = errors.own**2 * self.own
        for reading, channel in zip(self.readings, self.channels, strict=True):
            own = own + errors.channel[channel] ** 2 * reading
        kin = errors.shared**2 * (errors.alike * self.both + (1 - errors.alike) * self.kin)
        noise = rows.noise + np.where(self.speed, errors.session**2 / rows.sessions, 0.0)
        for mask, channel in zip(self.masks, self.channels, strict=True):
            noise = noise + np.where(mask, errors.channel_noise[channel] ** 2, 0.0)
        total = own * (1 + far) * decay + place * (1 + apart) + kin * (1 + near) * near_decay + rows.coefficients
        total[np.diag_indices_from(total)] += noise
        return _Parts(total, far, near, own * decay, kin * near_decay, place, apart)

    def __call__(self, errors: Errors) -> tuple[float, Array]:
        """Return the log likelihood and its gradient by the logarithms of ``_pack`` (``alike`` by its logit)."""
        rows = self.rows
        parts = self._parts(errors)
        total, far, near, own, kin = parts.total, parts.far, parts.near, parts.own, parts.kin
        try:
            root = cho_factor(total, lower=True)
        except LinAlgError:
            return -1e12, np.zeros(len(_pack(errors, self.channels)))
        solved = cho_solve(root, rows.residual)
        value = -0.5 * rows.residual @ solved - np.sum(np.log(np.diag(root[0])))
        outer = 0.5 * (np.outer(solved, solved) - cho_solve(root, np.eye(len(total))))
        diagonal = np.diag(outer)
        smooth, rough = own * (1 + far), kin * (1 + near)
        mixed = errors.shared**2 * (self.both - self.kin) * errors.alike * (1 - errors.alike)
        gradient = [
            2 * float(np.sum(outer * np.where(self.own > 0, smooth, 0.0))),
            2 * float(np.sum(outer * parts.place * (1 + parts.apart))),
            float(np.sum(outer * parts.place * parts.apart**2)),
            2 * float(np.sum(outer * rough)),
            float(np.sum(outer * mixed * (1 + near) * np.exp(-near))),
            2 * float(diagonal @ np.where(self.speed, errors.session**2 / rows.sessions, 0.0)),
        ]
        for slope, lengths in ((outer * own, errors.length), (outer * kin, errors.shared_length)):
            for apart, length in zip(self.apart, lengths, strict=True):
                gradient.append(3.0 * float(np.sum(slope * apart)) / length**2)
        for reading, mask, channel in zip(self.readings, self.masks, self.channels, strict=True):
            gradient.append(2 * float(np.sum(outer * np.where(reading > 0, smooth, 0.0))))
            gradient.append(2 * errors.channel_noise[channel] ** 2 * float(diagonal @ mask))
        return float(value), np.asarray(gradient)


def _pack(errors: Errors, channels: list[int]) -> Array:
    values = [
        errors.own,
        errors.place,
        errors.place_length,
        errors.shared,
        errors.alike / (1 - errors.alike),
        errors.session,
    ]
    values += [*errors.length, *errors.shared_length]
    for which in channels:
        values += [errors.channel[which], errors.channel_noise[which]]
    return np.log(values)


def _unpack(errors: Errors, logs: Array, channels: list[int]) -> Errors:
    own, place, place_length, shared, odds, session, *lengths = np.exp(logs[:14])
    channel, noise = list(errors.channel), list(errors.channel_noise)
    for index, which in enumerate(channels):
        channel[which], noise[which] = np.exp(logs[14 + 2 * index : 16 + 2 * index])
    return replace(
        errors,
        own=own,
        place=place,
        place_length=place_length,
        shared=shared,
        alike=odds / (1 + odds),
        session=session,
        length=tuple(lengths[:4]),
        shared_length=tuple(lengths[4:]),
        channel=tuple(channel),
        channel_noise=tuple(noise),
    )


def learn_errors(jobs: Sequence[Fitted], scope: Scope, start: Errors) -> Errors:
    """Return the sizes of errors under which the history is likeliest; a weak pull to ``Errors()`` where it says
    little."""
    chosen = np.linspace(0, len(jobs) - 1, min(len(jobs), MOST_JOBS)).round().astype(int)
    few = [replace(jobs[index], observations=jobs[index].observations.thinned(MOST_ROWS)) for index in chosen]
    rows = _rows(few, scope)
    likelihood = _Likelihood(rows)
    channels = likelihood.channels
    default = _pack(Errors(), channels)

    def loss(logs: Array) -> tuple[float, Array]:
        value, gradient = likelihood(_unpack(start, logs, channels))
        away = (logs - default) / PULL**2
        return -value + 0.5 * float(away @ (logs - default)), away - gradient

    begin = np.clip(_pack(start, channels), default - FARTHEST, default + FARTHEST)
    bounds = [(value - FARTHEST, value + FARTHEST) for value in default]
    options = {"maxiter": ITERATIONS, "ftol": 1e-6}
    found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    learned = _unpack(start, found.x, channels)
    doubted = tuple(doubt * sd for doubt, sd in zip(DOUBT, learned.channel, strict=True))
    return replace(learned, channel=doubted)


def learn_scales(jobs: Sequence[Fitted], scope: Scope, errors: Errors) -> tuple[Errors, list[float]]:
    """Return the errors with how likely each of ``SCALES`` is among jobs, and the likeliest scale of each job."""
    misfit = Misfit(errors)
    evidence = np.zeros((len(jobs), len(SCALES)))
    for index, job in enumerate(jobs):
        seen = Seen.of(job.observations, misfit, scope.form)
        for place, scale in enumerate(SCALES):
            evidence[index, place] = job.mode.evidence(seen, scope, seen.covariance(scale))
    usual = np.asarray(Errors().scales)
    weights = usual
    for _ in range(30):
        share = softmax(evidence + np.log(weights), axis=1)
        weights = (share.sum(axis=0) + 2.0 * usual) / (len(jobs) + 2.0)
    likeliest = np.asarray(SCALES)[np.argmax(share, axis=1)]
    return replace(errors, scales=tuple(weights.tolist())), likeliest.tolist()


def learn_field(jobs: Sequence[Fitted], scope: Scope, errors: Errors) -> Field:
    """Return the shared error given the history's speeds."""
    per_job = max(FEWEST_ROWS, FIELD_ROWS // len(jobs))
    some = np.linspace(0, len(jobs) - 1, min(len(jobs), FIELD_ROWS // per_job)).round().astype(int)
    speeds = []
    for job in (jobs[index] for index in some):
        one = replace(job.observations, shown=np.full_like(job.observations.shown, np.nan))
        speeds.append(replace(job, observations=one.thinned(per_job)))
    rows = _rows(speeds, scope)
    names = np.array([job.name for job in speeds], dtype=object)[rows.job.astype(np.intp)]
    return Field(rows.features, rows.group, names, rows.residual, _Likelihood(rows).covariance(errors))
