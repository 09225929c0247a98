"""The kinds of jobs that priors are learned of, and the coefficients that act in each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.throughput.physics import ALL_REDUCE, SERVED, Configurations, with_unknown_batch

UNKNOWN_BATCH = "-unknown-batch"
_FORMS = {"allreduce": ALL_REDUCE, "sync-ps": SERVED, "async-ps": SERVED}
FORMS = {**_FORMS, **{kind + UNKNOWN_BATCH: with_unknown_batch(form) for kind, form in _FORMS.items()}}
"""Of each kind of job, the coefficients that act."""


def kind_of(configurations: Configurations) -> str:
    """Return the kind of job that configurations are of: priors are learned a kind."""
    c = configurations
    strategy = ("async-ps" if c.asynchronous[0] else "sync-ps") if c.ps[0] > 0 else "allreduce"
    return strategy + (UNKNOWN_BATCH if np.isnan(c.batch_size).any() else "")


def kinds_of(configurations: Configurations) -> list[str]:
    """Return the kinds of job that some configurations are of, the first one's first."""
    kinds = (kind_of(configurations.take(np.array([row]))) for row in _representatives(configurations))
    return list(dict.fromkeys(kinds))


def _representatives(configurations: Configurations) -> NDArray[np.intp]:
    """Return the places of the first row of each combination of what a kind depends on."""
    c = configurations
    kinds = 4 * (c.ps > 0) + 2 * (c.asynchronous > 0) + np.isnan(c.batch_size)
    return np.sort(np.unique(kinds, return_index=True)[1])


def most_alike(kind: str) -> list[str]:
    """Return the kinds whose jobs may stand for a kind's, itself first; all-reduce and servers never do."""
    served = kind.removesuffix(UNKNOWN_BATCH) in ("sync-ps", "async-ps")
    same = [other for other in FORMS if (other.removesuffix(UNKNOWN_BATCH) in ("sync-ps", "async-ps")) == served]
    strategy = kind.removesuffix(UNKNOWN_BATCH)
    return sorted(same, key=lambda other: (other != kind, other.removesuffix(UNKNOWN_BATCH) != strategy))
