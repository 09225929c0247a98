"""The readings that a fitted model keeps, as JSON and tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.memory.usage import Container


def written(containers: Sequence[Container]) -> tuple[list[dict[str, Any]], dict[str, NDArray[np.generic]]]:
    """Return containers as a list of JSON and tensors."""
    said = [{"name": one.name, "labels": list(one.labels)} for one in containers]
    tensors: dict[str, NDArray[np.generic]] = {
        "counts": np.array([len(one.times) for one in containers], dtype=np.int64),
        "times": np.concatenate([np.zeros(0), *(one.times for one in containers)]),
        "used": np.concatenate([np.zeros(0), *(one.used for one in containers)]),
        "killed": np.concatenate([np.zeros(0, dtype=np.uint8), *(one.killed.astype(np.uint8) for one in containers)]),
    }
    return said, tensors


def read(said: Sequence[dict[str, Any]], tensors: Mapping[str, NDArray[np.generic]]) -> list[Container]:
    """Return the containers that ``written`` gave.

    Raises:
        KeyError, TypeError, ValueError: they aren't such.
    """
    found = []
    ends = np.cumsum(np.asarray(tensors["counts"], dtype=np.int64))
    starts = ends - np.asarray(tensors["counts"], dtype=np.int64)
    for one, start, end in zip(said, starts, ends, strict=True):
        template, role, rank = one["labels"]
        times, used = (np.asarray(tensors[name][start:end], dtype=np.float64) for name in ("times", "used"))
        killed = np.asarray(tensors["killed"][start:end]).astype(np.bool_)
        found.append(Container(str(one["name"]), (template, role, rank), times, used, killed))
    return found
