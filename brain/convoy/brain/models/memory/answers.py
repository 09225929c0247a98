"""What every recommender of limits takes and gives: arguments checked, limits capped, one frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from convoy.core.api.errors import InvalidInput

HIGHEST = 700.0
"""Logarithms beyond it are cut, so that every limit is finite."""


def checked_rate(oom_rate: float) -> float:
    """Return the rate.

    Raises:
        InvalidInput: it isn't a probability between 0 and 1.
    """
    if isinstance(oom_rate, bool) or not isinstance(oom_rate, int | float | np.number) or not 0.0 < oom_rate < 1.0:
        raise InvalidInput(f"oom_rate is {oom_rate!r}: expected a probability between 0 and 1, such as 0.01")
    return float(oom_rate)


def checked_node(node_bytes: float | None) -> float | None:
    """Return what a node has.

    Raises:
        InvalidInput: it isn't a number of bytes above zero.
    """
    if node_bytes is None:
        return None
    number = isinstance(node_bytes, int | float | np.number) and not isinstance(node_bytes, bool)
    if not (number and np.isfinite(node_bytes) and node_bytes > 0):
        raise InvalidInput(f"node_bytes is {node_bytes!r}: expected bytes above zero, or None for no cap")
    return float(node_bytes)


def answered(
    names: Sequence[str], limits: Sequence[float], reasons: Sequence[str], node_bytes: float | None
) -> pd.DataFrame:
    """Return ``container``, ``limit_bytes``, ``reason`` of limits (logarithms; NaN: none), capped at a node's."""
    found = np.exp(np.minimum(np.asarray(limits, dtype=np.float64), HIGHEST))
    said = list(reasons)
    if node_bytes is not None:
        for row in np.flatnonzero(found > node_bytes):
            said[row] += f"; CappedByNode: {found[row]:.4g} bytes are asked for, a node has {node_bytes:.4g}"
        found = np.where(found > node_bytes, node_bytes, found)
    return pd.DataFrame(
        {
            "container": pd.Series(list(names), dtype=object),
            "limit_bytes": pd.Series(found, dtype=np.float64),
            "reason": pd.Series(said, dtype=object),
        }
    )
