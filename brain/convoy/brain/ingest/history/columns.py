"""Which columns a file of history may have, and must have: those of the models' frames, and ``origin``."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from convoy.brain.features.columns import COLUMNS, Column
from convoy.core.api.errors import InvalidInput

ORIGIN = "origin"
FILE_COLUMNS: tuple[Column, ...] = (
    *COLUMNS,
    Column(ORIGIN, "label", "where the row was measured, in any words"),
)
BY_NAME: dict[str, Column] = {column.name: column for column in FILE_COLUMNS}
REQUIRED = ("job", "workers", "throughput")

_SEPARATORS = {";": "';'", "\t": "tabs", "|": "'|'"}


def settle(place: str, names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns that a file's names stand for, in the file's order.

    Args:
        place: where the names stand, for messages.
        names: as the file has them.

    Raises:
        InvalidInput: one is unknown, stands twice, or is missing.
    """
    for name in names:
        if name not in BY_NAME:
            raise InvalidInput(f"{place}: unknown column {name!r}; {_hint(name)}", reason="HistoryColumnUnknown")
        if names.count(name) > 1:
            raise InvalidInput(f"{place}: column {name!r} stands twice; keep one", reason="HistoryColumnUnknown")
    for name in REQUIRED:
        if name not in names:
            raise InvalidInput(
                f"{place}: column {name!r} is missing ({BY_NAME[name].meaning}); add it",
                reason="HistoryColumnMissing",
            )
    return tuple(BY_NAME[name] for name in names)


def _hint(name: str) -> str:
    for separator, word in _SEPARATORS.items():
        if separator in name:
            return f"fields are separated by commas, not by {word}"
    near = difflib.get_close_matches(name.lower(), BY_NAME, n=1, cutoff=0.75)
    if near:
        return f"did you mean {near[0]} ({BY_NAME[near[0]].meaning})?"
    if name.startswith("__index"):
        return "that is the index of a pandas frame: write the file with index=False"
    return f"known are {', '.join(BY_NAME)}"
