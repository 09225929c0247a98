"""The envelope: what goes in comes out, what is malformed is refused, and the token is never shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import InvalidInput

TEXT = st.text(st.characters(codec="ascii", categories=("L", "N", "P")), max_size=40)
NUMBER = st.integers(0, 2**64 - 1)
ENVELOPES = st.builds(
    Envelope, job=TEXT, token=TEXT, epoch=NUMBER, sender=TEXT, incarnation=NUMBER, sequence=NUMBER, version=TEXT
)


@given(ENVELOPES)
def test_it_survives_the_way(envelope: Envelope) -> None:
    assert Envelope.from_metadata(envelope.to_metadata()) == envelope


def test_what_is_absent_has_its_default() -> None:
    assert Envelope.from_metadata([("user-agent", "grpc")]) == Envelope(version="")


@pytest.mark.parametrize("key", ["epoch", "incarnation", "sequence"])
@pytest.mark.parametrize("value", ["-1", "1.5", "", "one", "\u0661", "1" * 21, "9" * 5000, " 1"])
def test_a_malformed_number_is_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(InvalidInput, match=f"convoy-{key}"):
        Envelope.from_metadata([(f"convoy-{key}", value)])


def test_its_token_is_not_shown() -> None:
    envelope = Envelope(job="uid", token="hunter2")
    assert "hunter2" not in f"{envelope!r} {envelope}"
