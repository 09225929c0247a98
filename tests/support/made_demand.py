"""Demand of a made-up cluster, by the hour."""

from __future__ import annotations

import numpy as np
import pandas as pd

BEGIN = pd.Timestamp("2026-03-02", tz="UTC")


def demand(
    days: float = 56,
    *,
    seed: int = 0,
    resource: str = "accelerators",
    level: float = 300.0,
    weekly: float = 60.0,
    wander: float = 15.0,
    noise: float = 10.0,
) -> pd.DataFrame:
    """Return hourly rows: a level that wanders back to its mean within days, a weekly and a daily wave, noise."""
    generator = np.random.default_rng(seed)
    hours = np.arange(round(days * 24))
    away, kept = np.zeros(len(hours)), 1 - 1 / 120
    steps = generator.normal(0.0, wander, len(hours)) * np.sqrt(1 - kept**2) * 3
    for hour in range(1, len(hours)):
        away[hour] = kept * away[hour - 1] + steps[hour]
    wave = weekly * np.sin(2 * np.pi * hours / 168) + weekly / 2 * np.sin(2 * np.pi * hours / 24)
    used = np.maximum(level + away + wave + generator.normal(0.0, noise, len(hours)), 0.0)
    times = BEGIN + pd.to_timedelta(hours, unit="h")
    return pd.DataFrame({"time": times, "resource": resource, "used": used})
