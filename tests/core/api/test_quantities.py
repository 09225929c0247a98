"""Quantities: Kubernetes' notation, exactly, and nothing else."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api import quantity
from convoy.core.api.errors import InvalidQuantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", "0"),
        ("2", "2"),
        (2, "2"),
        (1.5, "1.5"),
        ("500m", "0.5"),
        ("100u", "0.0001"),
        ("1k", "1000"),
        ("3Gi", str(3 * 2**30)),
        ("1.5G", "1500000000"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", str(10**18)),
        (".5", "0.5"),
        ("5.", "5"),
        ("+1", "1"),
    ],
)
def test_notation(text: str | int | float, value: str) -> None:
    assert quantity.parse(text) == Decimal(value)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "Gi", "1 Gi", "1gi", "1KI", "1,5", "0x10", "nan", "inf", "-inf", "True", "1e", "1m2", "--1", "1_000",
        "\u0663", "1e400Ki", "1e99", "1e999999999", "1e9999999999999999999", "9223372036854775808",
    ],
)  # fmt: skip
def test_what_is_no_quantity_is_refused_with_the_value(text: str) -> None:
    with pytest.raises(InvalidQuantity) as caught:
        quantity.parse(text)
    assert text.strip()[:20] in str(caught.value)
    assert "expected" in str(caught.value) or "can hold" in str(caught.value)


def test_negative_is_refused() -> None:
    with pytest.raises(InvalidQuantity, match="negative"):
        quantity.parse("-1")


@given(st.text(max_size=24) | st.floats() | st.integers())
def test_anything_is_a_quantity_or_refused(anything: str | float | int) -> None:
    try:
        value = quantity.parse(anything)
    except InvalidQuantity:
        return
    assert 0 <= value < 2**63


@given(st.integers(0, 10**9))
def test_cores_survive_rendering_to_a_thousandth(thousandths: int) -> None:
    text = quantity.render_cores(thousandths / 1000)
    assert quantity.parse(text) == Decimal(thousandths) / 1000


def test_a_part_of_a_byte_counts_as_one() -> None:
    assert quantity.count("1500m") == 2
    assert quantity.count("1m") == 1
    assert quantity.cores("1500m") == 1.5
