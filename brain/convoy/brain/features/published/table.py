"""A CSV file of a public data set: read, its columns required by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from convoy.core.api.errors import InvalidInput


def read_table(path: Path, required: Iterable[str]) -> pd.DataFrame:
    """Read a CSV file (.csv, .csv.gz).

    Raises:
        InvalidInput: it can't be read, has no row, or lacks a required column.
    """
    try:
        frame = pd.read_csv(path)
    except (OSError, ValueError) as error:  # pandas' own parser errors are ValueErrors
        raise InvalidInput(f"{path}: can't be read as CSV: {error}; fetch the data set again") from error
    missing = [name for name in required if name not in frame.columns]
    if missing:
        has = ", ".join(map(str, frame.columns))
        raise InvalidInput(f"{path}: no column {', '.join(missing)}; it has {has}; fetch the data set again")
    if not len(frame):
        raise InvalidInput(f"{path}: no row after its head; fetch the data set again")
    return frame
