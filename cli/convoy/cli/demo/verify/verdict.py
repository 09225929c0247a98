"""A claim and whether it holds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a claim holds. ``holds`` is None where it isn't judged (speeds in the quick form)."""

    claim: str
    holds: bool | None
    facts: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found: whether the claim holds, the numbers, and where they stand."""

    holds: bool
    facts: str
    evidence: str


class Unfounded(Exception):
    """The evidence that a claim needs isn't there; the claim fails."""
