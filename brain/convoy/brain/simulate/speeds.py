"""Measured step times of one program on one kind of accelerator, and neutral interpolation between them.

Neutral: no model of training is in it, so no policy's own model is favoured. Between measured local batches, times
are linear in the batch; where nodes and accelerators weren't measured together, logarithms of times are linear over
the triangle of measured (nodes, accelerators) around them, and the nearest measured pair counts outside of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay, QhullError

Array = NDArray[np.float64]
Shape = tuple[int, ...]
Key = TypeVar("Key")

GRID = 1.5
"""Batches were measured in steps of about 1.41: a larger gap below what a job could use is a limit of memory."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Times over local batches.

    Attributes:
        batch: (n,) local batches, ascending.
        times: (n, 2) seconds of a step, and of its part that synchronizes.
    """

    batch: Array
    times: Array

    def at(self, local: float) -> Array:
        """Return (2,) step and synchronization seconds; beyond the measured batches along the last stretch."""
        if len(self.batch) == 1:
            return np.asarray(self.times[0])
        i = int(np.clip(np.searchsorted(self.batch, local) - 1, 0, len(self.batch) - 2))
        share = (local - self.batch[i]) / (self.batch[i + 1] - self.batch[i])
        if local < self.batch[0]:  # the fixed part of a step isn't known: never below what was measured
            share = 0.0
        return np.asarray(self.times[i] + share * (self.times[i + 1] - self.times[i]))


def curve(batch: Array, times: Array) -> Curve:
    """Return a curve through means over rows of equal batch."""
    values, place = np.unique(batch, return_inverse=True)
    count = np.bincount(place)
    means = np.column_stack([np.bincount(place, weights=times[:, i]) / count for i in range(2)])
    return Curve(values, means)


class Speeds:
    """Step times by placement and local batch.

    Attributes:
        smallest_local, largest_local: local batches that can be used: those measured; where some sizes were measured
            up to a smaller batch than their share of the largest global batch, an accelerator's memory ends there.
        most: accelerators of the largest measured placement.
        most_per_node: the same on one node.
        noise: standard deviation of the logarithm of step times between rows of equal nodes, accelerators and batch.
    """

    def __init__(
        self, rows: Iterable[tuple[Shape | None, int, int, float, float, float]], largest_batch: float
    ) -> None:
        """Take (shape if known, nodes, accelerators, local batch, step seconds, synchronization seconds) rows."""
        listed = list(rows)
        shapes = [tuple(sorted(row[0])) if row[0] else None for row in listed]
        numbers = np.array([row[1:] for row in listed], dtype=np.float64)
        pairs = [(int(n), int(r)) for n, r in numbers[:, :2]]
        self._by_shape = _curves(shapes, numbers)
        self._by_pair = _curves(pairs, numbers)
        self._pairs = list(self._by_pair)
        self.smallest_local = int(numbers[:, 2].min())
        self.largest_local = int(_largest_local(numbers, largest_batch))
        self.most = max(replicas for _, replicas in self._pairs)
        self.most_per_node = max(-(-replicas // nodes) for nodes, replicas in self._pairs)
        self.noise = _noise(numbers)
        self._triangles = _triangles(self._pairs)
        self._weights: dict[tuple[int, int], list[tuple[tuple[int, int], float]]] = {}
        self._known: dict[tuple[Shape, int], tuple[float, float]] = {}

    def step(self, shape: Shape, local: int) -> tuple[float, float]:
        """Return the seconds of one micro-step with synchronization, and the part of them that synchronizes.

        Args:
            shape: accelerators on each node, ascending.
            local: samples a replica.
        """
        key = (shape, local)
        if key not in self._known:
            measured = self._by_shape.get(shape)
            times = measured.at(local) if measured else self._between(len(shape), sum(shape), local)
            self._known[key] = (float(times[0]), float(min(times[1], times[0] * 0.999)))
        return self._known[key]

    def _between(self, nodes: int, replicas: int, local: int) -> Array:
        around = self._around(nodes, replicas)
        logs = sum(weight * np.log(np.maximum(self._by_pair[pair].at(local), 1e-9)) for pair, weight in around)
        return np.asarray(np.exp(logs))

    def _around(self, nodes: int, replicas: int) -> list[tuple[tuple[int, int], float]]:
        """Return measured pairs and weights that add up to 1."""
        pair = (nodes, replicas)
        if pair in self._by_pair:
            return [(pair, 1.0)]
        if pair not in self._weights:
            self._weights[pair] = self._inside(pair) or [(self._nearest(pair), 1.0)]
        return self._weights[pair]

    def _inside(self, pair: tuple[int, int]) -> list[tuple[tuple[int, int], float]]:
        if self._triangles is None:
            return []
        place = np.log(np.array(pair, dtype=np.float64))
        triangle = int(self._triangles.find_simplex(place))
        if triangle < 0:
            return []
        transform = self._triangles.transform[triangle]
        first = transform[:2] @ (place - transform[2])
        shares = [*first, 1.0 - float(first.sum())]
        corners = self._triangles.simplices[triangle]
        return [(self._pairs[int(corner)], float(share)) for corner, share in zip(corners, shares, strict=True)]

    def _nearest(self, pair: tuple[int, int]) -> tuple[int, int]:
        distances = [float(np.sum((np.log(pair) - np.log(other)) ** 2)) for other in self._pairs]
        return self._pairs[int(np.argmin(distances))]


def _curves(keys: Sequence[Key | None], numbers: Array) -> dict[Key, Curve]:
    places: dict[Key, list[int]] = {}
    for i, key in enumerate(keys):
        if key is not None:
            places.setdefault(key, []).append(i)
    return {key: curve(numbers[rows, 2], numbers[rows, 3:5]) for key, rows in places.items()}


def _largest_local(numbers: Array, largest_batch: float) -> float:
    largest = float(numbers[:, 2].max())
    for replicas in np.unique(numbers[:, 1]):
        here = float(numbers[numbers[:, 1] == replicas, 2].max())
        if here * GRID < largest_batch / replicas:
            largest = min(largest, here)
    return largest


def _noise(numbers: Array) -> float:
    _, place = np.unique(numbers[:, :3], axis=0, return_inverse=True)
    logs, count = np.log(numbers[:, 3]), np.bincount(place.ravel())
    means = np.bincount(place.ravel(), weights=logs) / count
    freedom = int(np.sum(count - 1))
    return float(np.sqrt(np.sum((logs - means[place.ravel()]) ** 2) / freedom)) if freedom else 0.0


def _triangles(pairs: list[tuple[int, int]]) -> Delaunay | None:
    try:
        return Delaunay(np.log(np.array(pairs, dtype=np.float64)))
    except (QhullError, ValueError):  # all on one line, as where only one node was measured
        return None
