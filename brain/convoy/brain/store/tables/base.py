"""The root of the tables, and where rows come from."""

from __future__ import annotations

from sqlalchemy.orm import DeclarativeBase

MEASURED = "measured"
IMPORTED = "imported"


class Base(DeclarativeBase):
    """Root of the tables."""
