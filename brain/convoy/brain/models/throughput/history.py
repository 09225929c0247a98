"""A history's frame, split into its jobs: read as a whole, since thousands of small frames would take minutes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.throughput.frame import (
    LABELS,
    Observations,
    group_of,
    label_text,
    merged,
    names_of,
    repeat_scatter,
    rows_by_job,
    usable_of,
)


@dataclass(frozen=True)
class JobRows:
    """One job of a frame: its labels, what it showed, and ``repeat_scatter``."""

    name: str
    labels: dict[str, str]
    observations: Observations
    scatter: tuple[float, float]


def jobs_of(frame: pd.DataFrame, most: int) -> list[JobRows]:
    """Return the jobs of a history with at least one usable row, at most ``most`` configurations of each."""
    if not len(frame):
        return []
    names = names_of(frame)
    labels = _labels_by_job(frame, names)
    usable = usable_of(frame)
    jobs = []
    for name, places in zip(*rows_by_job(names[usable.rows]), strict=True):
        own = usable.take(places)
        observations = replace(merged(own).thinned(most), group=group_of(labels[name]))
        jobs.append(JobRows(name, labels[name], observations, repeat_scatter(own)))
    return jobs


def _labels_by_job(frame: pd.DataFrame, names: NDArray[np.object_]) -> dict[str, dict[str, str]]:
    """Return ``labels_of`` each job."""
    found: dict[str, dict[str, str]] = {str(name): {} for name in pd.unique(names)}
    for column in LABELS:
        if column in frame.columns:
            firsts = pd.Series(frame[column].to_numpy(dtype=object)).groupby(names, sort=False).first().dropna()
            for name, value in firsts.items():
                text = label_text(column, value)
                if text:
                    found[str(name)][column] = text
    return found
