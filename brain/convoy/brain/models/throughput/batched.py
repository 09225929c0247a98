"""The modes of thousands of jobs at once, by torch: the same climb as ``mode.find_mode``, job by job.

Jobs are padded to grids of their observations, one row for speed and one for each channel, in which what a job lacks
weighs nothing; each has a step of its own, and leaves once it has arrived. Needs torch, imported when called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.throughput import channels
from convoy.brain.models.throughput.misfit import Seen
from convoy.brain.models.throughput.mode import DAMPING, LEAST_GAIN, LONGEST_MOVE, Mode, Scope
from convoy.brain.models.throughput.physics import SIZE, Array, Configurations, Form, log_samples, step_of

CHUNK = 1 << 14
"""Values (jobs times the padded length of each) that are worked on together: below 100 MB with all moves."""

STEP = 1e-4
"""Of the differences, as in ``Seen.jacobian``."""


def available() -> bool:
    """Return whether torch is installed."""
    return find_spec("torch") is not None


def find_modes(
    jobs: Sequence[Seen],
    scope: Scope,
    covariances: Sequence[Array],
    starts: Sequence[Array | None] | None = None,
    device: str = "cpu",
    steps: int = 12,
) -> list[Mode]:
    """Return the posterior mode of each job, as ``find_mode`` does; double precision on any device.

    Args:
        jobs: what was seen of each, something of each; all of the scope's form.
        scope: the Gaussian of coefficients that all jobs share.
        covariances: of what was seen of each job, (k + r, k + r).
        starts: where to begin, (d,) each; None: at the scope's mean.
        device: where torch computes: "cpu", "cuda".
        steps: at most so many Gauss-Newton steps.

    Raises:
        ModuleNotFoundError: torch isn't installed.
        RuntimeError: torch has no such device.
        ValueError: a job's form isn't the scope's or nothing was seen of it, a list's length isn't that of ``jobs``,
            or a covariance isn't positive definite.
    """
    begin = [None] * len(jobs) if starts is None else list(starts)
    if len(covariances) != len(jobs) or len(begin) != len(jobs):
        raise ValueError(f"{len(jobs)} jobs, {len(covariances)} covariances, {len(begin)} starts: expected as many")
    if any(job.form != scope.form for job in jobs):
        raise ValueError("jobs of another form than the scope's: fit each kind of jobs by itself")
    if not all(len(job.observations) for job in jobs):
        raise ValueError("jobs without observations: leave them out, their mode is the scope's mean")
    found: list[Mode | None] = [None] * len(jobs)
    for chunk in _chunks(jobs):
        theta = np.array([scope.mean if begin[index] is None else begin[index] for index in chunk])
        batch = _Batch.of([jobs[index] for index in chunk], [covariances[index] for index in chunk], device)
        for index, mode in zip(chunk, _climb(batch, scope, theta, steps), strict=True):
            found[index] = mode
    return [mode for mode in found if mode is not None]


def _channels_of(job: Seen) -> tuple[int, ...]:
    return tuple(np.unique(job.channel).tolist())


def _chunks(jobs: Sequence[Seen]) -> list[list[int]]:
    """Return the jobs' places in chunks of the same channels and of like numbers of observations."""
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for index, job in enumerate(jobs):
        size = 1 << max(2, (len(job.observations) - 1).bit_length())  # padded to less than twice as many
        groups.setdefault((size, _channels_of(job)), []).append(index)
    chunks = []
    for (size, shown), members in groups.items():
        count = max(1, CHUNK // (size * (1 + len(shown))))
        members.sort(key=lambda index: len(jobs[index].observations))
        chunks += [members[at : at + count] for at in range(0, len(members), count)]
    return chunks


@dataclass(frozen=True)
class _Batch:
    """Jobs as tensors; g is the length of the grid, k observations in each of its rows."""

    configurations: Configurations
    """Fields of shape (jobs, 1, k)."""
    values: Any
    """(jobs, g); 0 where a job has none."""
    known: Any
    """Whether there is one, (jobs, g)."""
    weight: Any
    """Inverse of the covariance, (jobs, g, g); 0 where there is no value."""
    form: Form
    shown: tuple[int, ...]
    """Channels, in the order of the grid's rows after speed."""
    places: tuple[NDArray[np.intp], ...]
    """Of each job, where its values stand in the grid."""

    @classmethod
    def of(cls, jobs: Sequence[Seen], covariances: Sequence[Array], device: str) -> _Batch:
        """Pad the jobs with their own first observation."""
        import torch

        shown = _channels_of(jobs[0])
        size = max(len(job.observations) for job in jobs)
        grid = size * (1 + len(shown))
        row = np.zeros(channels.COUNT, dtype=np.intp)
        row[list(shown)] = 1 + np.arange(len(shown))
        places = tuple(
            np.concatenate([np.arange(len(job.observations)), row[job.channel] * size + job.place]) for job in jobs
        )
        kept = np.zeros((len(jobs), size), dtype=np.intp)
        values, known = np.zeros((len(jobs), grid)), np.zeros((len(jobs), grid), dtype=bool)
        covariance = np.zeros((len(jobs), grid, grid))
        covariance[:, np.arange(grid), np.arange(grid)] = 1.0
        start = 0
        for index, (job, place, own) in enumerate(zip(jobs, places, covariances, strict=True)):
            kept[index] = start
            kept[index, : len(job.observations)] += np.arange(len(job.observations))
            start += len(job.observations)
            values[index, place], known[index, place] = job.values, True
            covariance[index, place[:, None], place] = own
        configurations: dict[str, Any] = {
            field.name: torch.as_tensor(
                np.concatenate([getattr(job.observations.configurations, field.name) for job in jobs])[kept],
                dtype=torch.float64,
                device=device,
            )[:, None]
            for field in fields(Configurations)
        }
        mask = torch.as_tensor(known, device=device)
        factor, failed = torch.linalg.cholesky_ex(torch.as_tensor(covariance, device=device))
        if failed.any():
            raise ValueError(f"{int((failed > 0).sum())} covariances aren't positive definite")
        weight = torch.where(mask[:, :, None] & mask[:, None, :], torch.cholesky_inverse(factor), 0.0)
        seen = torch.as_tensor(values, device=device)
        return cls(Configurations(**configurations), seen, mask, weight, jobs[0].form, shown, places)

    def take(self, rows: Any) -> _Batch:
        """Return the jobs at ``rows``; their places stay behind."""
        configurations = {
            field.name: getattr(self.configurations, field.name)[rows] for field in fields(Configurations)
        }
        return _Batch(
            Configurations(**configurations),
            self.values[rows],
            self.known[rows],
            self.weight[rows],
            self.form,
            self.shown,
            (),
        )

    def physics(self, theta: Any) -> Any:
        """Return what the physics makes of the grid, (jobs, draws, g), for ``theta`` (jobs, draws, d)."""
        import torch

        full = theta.new_zeros((*theta.shape[:2], SIZE))
        full[..., list(self.form.active)] = theta
        step = step_of(full, self.configurations)
        rows: list[Any] = [log_samples(full, self.configurations) - step.log_step]
        rows += [channels.expected(full, self.configurations, step, channel) for channel in self.shown]
        return torch.where(self.known[:, None], torch.cat(rows, dim=2), 0.0)

    def slope(self, theta: Any) -> tuple[Any, Any]:
        """Return the grid (jobs, g) at ``theta`` (jobs, d), and its derivative (jobs, g, d)."""
        import torch

        size = theta.shape[1]
        moves = STEP * torch.eye(size, dtype=theta.dtype, device=theta.device)
        found = self.physics(theta[:, None] + torch.cat([torch.zeros_like(moves[:1]), moves, -moves]))
        return found[:, 0], ((found[:, 1 : size + 1] - found[:, size + 1 :]) / (2 * STEP)).transpose(1, 2)


def _climb(batch: _Batch, scope: Scope, begin: Array, steps: int) -> list[Mode]:
    """Climb from ``begin`` (jobs, d); jobs that gain no more leave."""
    import torch

    def tensor(values: Any) -> Any:
        return torch.as_tensor(values, dtype=torch.float64, device=batch.values.device)

    mean, precision, damping = tensor(scope.mean), tensor(np.linalg.inv(scope.covariance)), tensor(DAMPING)

    def objective(some: _Batch, candidates: Any) -> Any:
        residual, away = some.values[:, None] - some.physics(candidates), candidates - mean
        found = 0.5 * ((residual @ some.weight) * residual).sum(2) + 0.5 * ((away @ precision) * away).sum(2)
        return torch.where(torch.isnan(found), torch.inf, found)

    theta = tensor(begin)
    best = objective(batch, theta[:, None])[:, 0]
    going = torch.arange(len(theta), device=theta.device)
    some = batch
    for _ in range(steps):
        here = theta[going]
        value, slope = some.slope(here)
        weighted = some.weight @ slope
        gradient = (weighted.transpose(1, 2) @ (some.values - value)[:, :, None])[:, :, 0] - (here - mean) @ precision
        factor, _failed = torch.linalg.cholesky_ex(slope.transpose(1, 2) @ weighted + precision)
        move = torch.cholesky_solve(gradient[:, :, None], factor)[:, :, 0]
        move = move * torch.clip(LONGEST_MOVE / move.abs().amax(1, keepdim=True).clip(1e-12, None), None, 1.0)
        attempts = here[:, None] + damping[:, None] * move[:, None]
        found, chosen = objective(some, attempts).min(1)
        gained = torch.nonzero(found < best[going] - LEAST_GAIN)[:, 0]
        if not len(gained):
            break
        going = going[gained]
        theta[going] = attempts[gained, chosen[gained]]
        best[going] = found[gained]
        some = some.take(gained)
    return _modes(batch, theta, precision)


def _modes(batch: _Batch, theta: Any, precision: Any) -> list[Mode]:
    """Return what ``find_mode`` does of each job, without the padding."""
    import torch

    value, slope = batch.slope(theta)
    factor, _failed = torch.linalg.cholesky_ex(slope.transpose(1, 2) @ batch.weight @ slope + precision)
    inverse = torch.cholesky_inverse(factor)
    arrays = [tensor.cpu().numpy() for tensor in (theta, inverse, value, slope)]
    return [
        Mode(place_theta, (spread + spread.T) / 2, values[place], slopes[place])
        for place_theta, spread, values, slopes, place in zip(*arrays, batch.places, strict=True)
    ]
