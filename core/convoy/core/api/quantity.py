"""Kubernetes quantities, parsed once at the edge: cores as float, bytes and counts as int."""

from __future__ import annotations

import re
from decimal import Decimal, DecimalException

from convoy.core.api.errors import InvalidQuantity

_SUFFIXES: dict[str, Decimal] = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), start=1)},
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)},
}
_PATTERN = re.compile(r"^(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?P<suffix>[a-zA-Z]*)$", re.ASCII)
_LARGEST = Decimal(2) ** 63  # what Kubernetes holds, and more than any machine has


def parse(quantity: str | int | float) -> Decimal:
    """Return the exact value of a quantity such as ``"500m"``, ``"3Gi"``, ``"1e3"`` or ``2``.

    Raises:
        InvalidQuantity: not a quantity, negative, or not finite.
    """
    text = str(quantity).strip()
    match = _PATTERN.match(text)
    if match is None or match["suffix"] not in _SUFFIXES:
        raise InvalidQuantity(
            f"'{quantity}' is not a quantity: expected a number with an optional suffix such as 500m, 2, 3Gi or 1.5G"
        )
    try:
        value = Decimal(match["number"]) * _SUFFIXES[match["suffix"]]
    except DecimalException as error:  # an exponent beyond what Decimal holds
        raise InvalidQuantity(f"'{text[:40]}' is beyond what a quantity can hold") from error
    if value < 0:
        raise InvalidQuantity(f"'{quantity}' is negative: expected 0 or more")
    if value >= _LARGEST:
        raise InvalidQuantity(f"'{text[:40]}' is beyond what a quantity can hold: expected less than 2^63")
    return value


def cores(quantity: str | int | float) -> float:
    """Return CPU cores; ``"1500m"`` is 1.5."""
    return float(parse(quantity))


def count(quantity: str | int | float) -> int:
    """Return a whole number of bytes or devices, rounded up as Kubernetes does."""
    value = parse(quantity)
    return int(value.to_integral_value(rounding="ROUND_CEILING"))


def render_cores(value: float) -> str:
    """Return cores as a quantity, exact to a thousandth: 1.5 is ``"1500m"``, 2.0 is ``"2"``."""
    thousandths = round(value * 1000)
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"
