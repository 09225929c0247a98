"""Moments as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def timestamp(moment: datetime) -> str:
    """Return a moment in UTC with microseconds, such as ``2026-01-31T12:00:00.000000Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def moment(text: str) -> datetime:
    """Undo ``timestamp``."""
    return datetime.fromisoformat(text.replace("Z", "+00:00"))
