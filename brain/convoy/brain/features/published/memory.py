"""Public measurements of memory use, as the frame that ``MemoryModel`` reads.

``bitbrains``: virtual machines of a data centre in August 2013, maxima of 15 minutes (Shen et al., CCGrid 2015; trace
GWA-T-12). ``alibaba_genai``: containers of inference pods over a day, a reading a minute, as a share of what each was
allotted: the trace doesn't say how much that was, so a share of 1 stands as ``UNIT`` bytes.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd

from convoy.brain.features.published.table import UNREADABLE, read_table
from convoy.core.api.errors import InvalidInput

BITBRAINS = "rnd_2013-8_mem_max15min_mb.npz"
PODS = "pod_memory_util_anon.csv.gz"
UNIT = 2.0**30
_MIB = 2.0**20
_FIRST = pd.Timestamp("2013-08-01", tz="UTC")
_EVERY = pd.Timedelta(minutes=15)


def bitbrains_usage(folder: Path) -> pd.DataFrame:
    """Return the most that each machine used in each quarter of an hour.

    Args:
        folder: with ``rnd_2013-8_mem_max15min_mb.npz``.

    Returns:
        ``container``, ``template`` (None), ``role`` ("vm"), ``rank`` (None), ``time``, ``used_bytes``,
        ``limit_bytes`` (what the machine has), ``oom`` (False); readings that are missing are left out.

    Raises:
        InvalidInput: the file can't be read or hasn't the arrays.
    """
    path = folder / BITBRAINS
    try:
        with np.load(path, allow_pickle=False) as arrays:
            used, capacity, names = arrays["mem"], arrays["cap_mb"], arrays["vm"]
    except (*UNREADABLE, KeyError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{path}: can't be read as arrays mem, cap_mb, vm: {error}; fetch it again") from error
    if used.ndim != 2 or used.shape[0] != len(names) or len(capacity) != len(names):
        raise InvalidInput(f"{path}: arrays of shapes {used.shape}, {capacity.shape}, {names.shape}; fetch it again")
    machine, quarter = np.nonzero(used >= 0)
    return _frame(
        "vm",
        container=np.array([f"vm-{name}" for name in names], dtype=object)[machine],
        time=pd.date_range(_FIRST, periods=used.shape[1], freq=_EVERY)[quarter],
        used_bytes=used[machine, quarter].astype(np.float64) * _MIB,
        limit_bytes=capacity.astype(np.float64)[machine] * _MIB,
    )


def pods_usage(folder: Path) -> pd.DataFrame:
    """Return the use of each container at each minute, a share of 1 as ``UNIT`` bytes.

    Args:
        folder: with ``pod_memory_util_anon.csv.gz``.

    Returns:
        Columns as ``bitbrains_usage``, role "pod"; the clock begins at the epoch.

    Raises:
        InvalidInput: the file can't be read or lacks a column.
    """
    table = read_table(folder / PODS, labels=("container",), numbers=("t", "value"))
    return _frame(
        "pod",
        container="pod-" + table["container"],
        time=pd.to_datetime(table["t"], unit="s", utc=True),
        used_bytes=table["value"].clip(lower=0.0) * UNIT,
        limit_bytes=np.full(len(table), UNIT),
    )


def _frame(role: str, **columns: object) -> pd.DataFrame:
    found = pd.DataFrame(columns)
    found.insert(1, "template", pd.Series([None] * len(found), dtype=object))
    found.insert(2, "role", role)
    found.insert(3, "rank", pd.Series([None] * len(found), dtype=object))
    return found.assign(oom=False)
