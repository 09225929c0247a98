"""Public measurements of gradient statistics by batch and epoch, as frames of ``EfficiencyModel``'s columns."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from convoy.brain.features.published.table import read_table

EPOCH_SECONDS = 300.0
"""What an epoch is said to take: noise ages by ratios of time, so that any length would do."""
BEGAN = pd.Timestamp("2020-01-01", tz="UTC")


def read_efficiency(folder: Path) -> pd.DataFrame:
    """Read statistics by epoch, one job an application; each was trained at several global batches.

    ``initial_batch`` is the smallest one measured. ``observed_at`` counts epochs from ``BEGAN``: the times themselves
    weren't published.

    Raises:
        InvalidInput: the file is absent or isn't as published.
    """
    raw = read_table(
        folder / "statistical_efficiency.csv",
        labels=("application",),
        numbers=("global_batch", "progress", "grad_sqr", "grad_var"),
    )
    jobs = raw.groupby(["application", "global_batch"], sort=False)
    epoch = jobs.cumcount() + 1
    return pd.DataFrame(
        {
            "job": raw["application"],
            "model": raw["application"],
            "workers": 1.0,
            "batch_size": raw["global_batch"].astype(float),
            "initial_batch": raw.groupby("application")["global_batch"].transform("min").astype(float),
            "grad_sqr": raw["grad_sqr"].astype(float),
            "grad_var": raw["grad_var"].astype(float),
            "observed_at": BEGAN + pd.to_timedelta(epoch * EPOCH_SECONDS, unit="s"),
            "window_seconds": EPOCH_SECONDS,
            "epoch": epoch,
        }
    )
