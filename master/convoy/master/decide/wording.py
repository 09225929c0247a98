"""Numbers with their nouns, as messages say them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return ``1 node``, ``2 nodes``, ``2 processes``."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def every(number: int, noun: str) -> str:
    """Return ``the node`` or ``all 2 nodes``."""
    return f"the {noun}" if number == 1 else f"all {number} {noun}s"
