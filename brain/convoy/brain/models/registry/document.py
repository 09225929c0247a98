"""JSON that a model file may hold: strict when it is written, and of a bounded size when it is read."""

from __future__ import annotations

import json
import math
from typing import Any

from convoy.core.api.errors import CorruptState, InvalidInput

LARGEST_BYTES = 32 * 2**20
MOST_VALUES = 2_000_000
DEEPEST = 64


def dumped(document: dict[str, Any], *, where: str) -> str:
    """Return the document as JSON in ASCII, keys in their order; floats come back bit for bit.

    Args:
        document: of JSON's types alone.
        where: what the document is, for the message.

    Raises:
        InvalidInput: a value that JSON hasn't (its place is named), or more than a file may hold.
    """
    wrong = _first_wrong(document)
    if wrong:
        raise InvalidInput(f"{where}{wrong}", reason="ModelStateInvalid")
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    if len(text) > LARGEST_BYTES or _values(text) > MOST_VALUES:
        raise InvalidInput(
            f"{where}: {len(text):,} bytes and up to {_values(text):,} values of JSON, at most {LARGEST_BYTES:,} and "
            f"{MOST_VALUES:,} fit into a model file; keep numbers in tensors",
            reason="ModelStateInvalid",
        )
    return text


def parsed(text: str | bytes, *, where: str) -> dict[str, Any]:
    """Return the object that a text holds.

    Raises:
        CorruptState: no JSON object, or one that ``dumped`` would never have written: too large, too deep, NaN.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise _corrupt(where, f"no UTF-8 text: {error.reason} at byte {error.start}") from None
    if len(text) > LARGEST_BYTES or _values(text) > MOST_VALUES:
        raise _corrupt(where, f"{len(text):,} bytes and up to {_values(text):,} values of JSON are more than any has")
    try:
        document = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise _corrupt(where, f"nested deeper than {DEEPEST} levels") from None
    except ValueError as error:
        raise _corrupt(where, f"no JSON: {error}") from None
    if not isinstance(document, dict):
        raise _corrupt(where, f"expected an object, found {type(document).__name__}")
    wrong = _first_wrong(document)
    if wrong:
        raise _corrupt(where, wrong.removeprefix(": "))
    return document


def _values(text: str) -> int:
    """Return no fewer than the values that the text holds, without parsing it."""
    return text.count(",") + text.count("[") + text.count("{") + text.count(":")


def _first_wrong(document: Any) -> str:
    """Return the place of the first value that isn't JSON's, and what it is; "" where all are. Without recursion."""
    left: list[tuple[Any, str, int]] = [(document, "", 0)]
    while left:
        value, path, depth = left.pop()
        if depth > DEEPEST:
            return f"{path[:200]}: nested deeper than {DEEPEST} levels"
        kind = type(value)
        if kind is dict:
            for key, inner in value.items():
                if type(key) is not str:
                    return f"{path}: key {key!r} is a {type(key).__name__}, and JSON's keys are text"
                left.append((inner, f"{path}.{key}", depth + 1))
        elif kind is list:
            left.extend((inner, f"{path}[{place}]", depth + 1) for place, inner in enumerate(value))
        elif kind is float:
            if not math.isfinite(value):
                return f"{path}: {value} isn't a number of JSON; write null, or keep it in a tensor"
        elif value is not None and kind not in (str, int, bool):
            return f"{path}: {kind.__name__} isn't JSON's: object, list, text, number, true, false, null"
    return ""


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} isn't a number of JSON")


def _corrupt(where: str, what: str) -> CorruptState:
    return CorruptState(f"{where}: {what}", reason="ModelFileCorrupt")
