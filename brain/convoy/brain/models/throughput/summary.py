"""From draws to numbers: mean, interval and spread of log speed, as samples/s."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr, ndtri

from convoy.brain.models.throughput.physics import Array
from convoy.brain.models.throughput.posterior import Latent

LARGEST = 600.0
"""Logarithms of speed beyond it are cut, so that every speed is finite."""

STEPS = 60
"""At most, in the search for a quantile."""
CLOSE = 1e-7
"""A step, of log speed, that ends it."""


def summary(latents: Sequence[Latent], offset: float, noise: Array, level: float, width: float = 1.0) -> Array:
    """Return mean, lower, upper (samples/s) and latent sd (of log speed), (n, 4).

    Each part of the posterior counts as two half Gaussians, with a spread of its own on each side of its mean, since
    what is unknown about scaling is lopsided: no job runs faster than its workers together. ``noise`` (n,) is the
    variance of measuring, ``level`` the interval's probability; ``width`` multiplies the interval's logarithm.
    """
    shares = np.array([len(latent.values) for latent in latents], dtype=np.float64)
    shares /= shares.sum()
    centers = np.array([latent.values.mean(axis=0) for latent in latents])
    mean = shares @ centers
    spreads, below, above = [], [], []
    for latent, center in zip(latents, centers, strict=True):
        away = latent.values - center
        under = np.minimum(away, 0.0)
        fraction = np.clip(np.count_nonzero(under, axis=0) / len(away), 0.05, 0.95)
        total = np.einsum("ij,ij->j", away, away) / len(away)
        part = np.einsum("ij,ij->j", under, under) / len(away)
        spreads.append(total + latent.left + (center - mean) ** 2)
        below.append(np.sqrt(part / fraction + latent.left + noise))
        above.append(np.sqrt(np.maximum(total - part, 0.0) / (1 - fraction) + latent.left + noise))
    lower = _quantile(0.5 - level / 2, shares, centers, np.array(below), np.array(above))
    upper = _quantile(0.5 + level / 2, shares, centers, np.array(below), np.array(above))
    lower, upper = mean + width * (lower - mean), mean + width * (upper - mean)
    bounded = np.clip(
        np.column_stack([mean, np.minimum(lower, mean), np.maximum(upper, mean)]) + offset, -LARGEST, LARGEST
    )
    return np.column_stack([np.exp(bounded), np.sqrt(shares @ np.array(spreads))])


def _quantile(probability: float, shares: Array, centers: Array, below: Array, above: Array) -> Array:
    """Return the quantile (n,) of mixtures of two-sided Gaussians, parts in the first axis.

    By Newton's steps, and by halving what is left of the interval where one would leave it, or isn't half the last.
    """
    z = float(ndtri(probability))
    side = below if z < 0 else above
    each = centers + z * side
    if len(shares) == 1:
        return np.asarray(each[0])
    low, high = each.min(axis=0), each.max(axis=0)
    found, last = shares @ each, high - low
    for _ in range(STEPS):
        away = found - centers
        scale = np.where(away < 0, below, above)
        away /= scale
        excess = shares @ ndtr(away) - probability
        low, high = np.where(excess < 0, found, low), np.where(excess < 0, high, found)
        density = shares @ (np.exp(-0.5 * away * away) / scale) / np.sqrt(2 * np.pi)
        step = -excess / np.maximum(density, 1e-300)
        good = (found + step >= low) & (found + step <= high) & (np.abs(step) <= last / 2)
        step = np.where(good, step, (low + high) / 2 - found)
        found, last = found + step, np.abs(step)
        if np.max(last) < CLOSE:
            break
    return np.asarray(found)
