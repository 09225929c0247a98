"""Statements of a migration that can be run again.

MySQL commits each change of the schema by itself, so that a migration which is killed leaves some of them done. Each
helper leaves what is there already, and the next run carries on where the last one stopped.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import context, op

from convoy.core.process.crashpoint import crash_point


def create_table(name: str, *items: Any, **options: Any) -> None:
    """Create a table unless it is there."""
    op.create_table(name, *items, if_not_exists=True, **options)
    crash_point("sql.after-step")


def create_index(name: str, table: str, columns: list[str], *, unique: bool = False) -> None:
    """Create an index unless it is there (MySQL has no IF NOT EXISTS for it)."""
    if not context.is_offline_mode():
        there = sa.inspect(op.get_bind()).get_indexes(table)
        if any(index["name"] == name for index in there):
            return
    op.create_index(name, table, columns, unique=unique)
    crash_point("sql.after-step")
