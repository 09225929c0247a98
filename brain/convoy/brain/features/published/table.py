"""A CSV file of a public data set: read, its columns required by name and kind."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from convoy.core.api.errors import InvalidInput

UNREADABLE = (OSError, ValueError, EOFError, zlib.error)
"""What a file that is damaged raises, compressed or not; pandas' own parser errors are ValueErrors."""


def read_table(path: Path, labels: Iterable[str], numbers: Iterable[str]) -> pd.DataFrame:
    """Read a CSV file (.csv, .csv.gz).

    Args:
        path: of the file.
        labels: columns of text, in which nothing may be empty.
        numbers: columns of numbers, empty where nothing was measured.

    Raises:
        InvalidInput: it can't be read, has no row, lacks a required column, or one of them holds something else.
    """
    labels, numbers = list(labels), list(numbers)
    try:
        frame = pd.read_csv(path, dtype=dict.fromkeys(labels, str))
    except UNREADABLE as error:
        why = " ".join(str(error).split())
        raise InvalidInput(f"{path}: can't be read as CSV: {why}; fetch the data set again") from error
    missing = [name for name in (*labels, *numbers) if name not in frame.columns]
    if missing:
        has = ", ".join(map(str, frame.columns))
        raise InvalidInput(f"{path}: no column {', '.join(missing)}; it has {has}; fetch the data set again")
    if not len(frame):
        raise InvalidInput(f"{path}: no row after its head; fetch the data set again")
    for name in labels:
        _require(path, frame, name, frame[name].notna(), "a name")
    for name in numbers:
        values = pd.to_numeric(frame[name], errors="coerce")
        _require(path, frame, name, values.notna() | frame[name].isna(), "a number")
        frame[name] = values
    return frame


def _require(path: Path, frame: pd.DataFrame, name: str, right: pd.Series[bool], kind: str) -> None:
    if not right.all():
        row = int((~right).to_numpy().argmax())
        value = frame[name].iloc[row]
        what = "is empty" if pd.isna(value) else f"is {str(value)[:40]!r}"
        raise InvalidInput(f"{path}: line {row + 2}: {name} {what}; expected {kind}; fetch the data set again")
