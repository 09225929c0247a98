"""What a frame looks like: its columns with their types, and how rows of the store become such a frame, in chunks.

Labels are object (str or None), numbers and counts float64 (NaN where not known), times datetime64[us, UTC], flags
boolean (NA where not known).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.features.columns import Column
from convoy.brain.store.engine import snapshot
from convoy.core.api.errors import InvalidInput

CHUNK = 50_000
"""Rows that are fetched at a time, where the caller doesn't say."""
DTYPES = {
    "label": "object",
    "number": "float64",
    "count": "float64",
    "time": "datetime64[us, UTC]",
    "flag": "boolean",
}

Parts = Callable[[Connection, int], Iterator[pd.DataFrame]]
"""Reads on a connection, so many rows at a time; yields frames with a layout's columns, types aside."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A kind of frame.

    Attributes:
        name: of the functions that return it.
        row: what a row is.
        columns: in their order.
        order: columns by which a whole frame is sorted.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Return the columns' names."""
        return tuple(column.name for column in self.columns)

    def typed(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the frame's columns that the layout has, in its order and types; those that are missing unknown."""
        unknown = pd.Series(None, index=frame.index, dtype=object)
        values = {column.name: _typed(frame.get(column.name, unknown), column.kind) for column in self.columns}
        return pd.DataFrame(values, columns=list(self.names)).reset_index(drop=True)

    def joined(self, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
        """Return typed frames as one, sorted."""
        if not parts:
            return self.typed(pd.DataFrame(columns=list(self.names)))
        frame = pd.concat(parts, ignore_index=True)
        return frame.sort_values(list(self.order), kind="stable", ignore_index=True) if self.order else frame


def _typed(values: pd.Series[Any], kind: str) -> pd.Series[Any]:
    if kind == "label":
        codes, found = pd.factorize(values.astype(object))  # so that equal texts are one object
        texts = np.array([*(text if text != "" else None for text in found), None], dtype=object)
        return pd.Series(texts[codes], index=values.index, dtype=object)
    if kind == "time":
        return pd.to_datetime(values, utc=True).astype("datetime64[us, UTC]")
    return values.astype("boolean") if kind == "flag" else values.astype("float64")


def read(connection: Connection, query: sa.Select[*tuple[Any, ...]], rows: int = CHUNK) -> Iterator[pd.DataFrame]:
    """Yield the rows that a query finds, at most ``rows`` in a frame; no more of them are held at a time."""
    result = connection.execute(query, execution_options={"yield_per": rows})
    names = list(result.keys())
    for part in result.partitions():
        yield pd.DataFrame([tuple(row) for row in part], columns=names)  # pandas is slow with SQLAlchemy's rows


def read_all(connection: Connection, query: sa.Select[*tuple[Any, ...]]) -> pd.DataFrame:
    """Return all rows that a query finds."""
    parts = list(read(connection, query))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=[*query.selected_columns.keys()])


def delivered(
    engine: Engine, tables: Sequence[type[Any]], layout: Layout, parts: Parts, chunks: int | None
) -> pd.DataFrame | Iterator[pd.DataFrame]:
    """Return all parts as one frame, sorted; or, one after the other, frames of at most ``chunks`` rows.

    Raises:
        InvalidInput: ``chunks`` is less than 1.
        Unavailable: the database can't be reached now.
    """
    if chunks is None:
        with snapshot(engine, *tables) as connection:
            found = [layout.typed(part) for part in parts(connection, CHUNK)]
        return layout.joined(found)
    if chunks < 1:
        raise InvalidInput(f"chunks is {chunks}: expected a number of rows, 1 or more", reason="InvalidChunk")
    return _in_chunks(engine, tables, layout, parts, chunks)


def _in_chunks(
    engine: Engine, tables: Sequence[type[Any]], layout: Layout, parts: Parts, rows: int
) -> Iterator[pd.DataFrame]:
    with snapshot(engine, *tables) as connection:
        for part in parts(connection, rows):
            yield layout.typed(part)
