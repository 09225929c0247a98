"""Statements of a migration that can be run again.

MySQL commits each change of the schema by itself, so that a migration which is killed leaves some of them done. Each
helper leaves what is there already, and the next run carries on where the last one stopped.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import context, op

from convoy.core.process.crashpoint import crash_point

PAST, FUTURE = "p_past", "p_future"
"""The outermost partitions: for what is older than the first day, and for what lies beyond the last."""
FIRST_DAY = "2000-01-01"


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


def add_column(table: str, column: sa.Column[Any]) -> None:
    """Add a column unless it is there."""
    if not has_column(table, column.name):
        op.add_column(table, column)
    crash_point("sql.after-step")


def add_reference(table: str, column: str, other: str, *, name: str) -> None:
    """Add a column that holds the number of a row of another table, or NULL, unless it is there."""
    if on_mysql():
        add_column(table, sa.Column(column, sa.BigInteger(), nullable=True))
        if not _has_foreign_key(table, name):
            op.create_foreign_key(name, table, other, [column], ["id"])
    elif not has_column(table, column):  # SQLite adds no constraint to a table that is there, but to a new column
        op.execute(f"ALTER TABLE {table} ADD COLUMN {column} INTEGER CONSTRAINT {name} REFERENCES {other} (id)")
    crash_point("sql.after-step")


def execute(statement: str) -> None:
    """Run a statement that changes nothing when it is run again."""
    op.execute(statement)
    crash_point("sql.after-step")


def has_column(table: str, column: str) -> bool:
    """Return whether a table is there and has the column; False where a script is only rendered."""
    if context.is_offline_mode():
        return False
    inspector = sa.inspect(op.get_bind())
    return inspector.has_table(table) and any(each["name"] == column for each in inspector.get_columns(table))


def on_mysql() -> bool:
    """Return whether this runs on MySQL or MariaDB, or is rendered for them."""
    return bool(op.get_context().dialect.name == "mysql")


def partition_by_day(table: str, column: str) -> None:
    """On MySQL, cut a table into partitions by day; there are only the two outermost until days are added.

    ``convoy.brain.store.partitions`` adds the days. SQLite has no partitions.
    """
    if not on_mysql() or _is_partitioned(table):
        return
    op.execute(
        f"ALTER TABLE {table} PARTITION BY RANGE COLUMNS({column}) "
        f"(PARTITION {PAST} VALUES LESS THAN ('{FIRST_DAY}'), PARTITION {FUTURE} VALUES LESS THAN (MAXVALUE))"
    )
    crash_point("sql.after-step")


def create_view(name: str, mysql: str, sqlite: str | None = None) -> None:
    """Create a view, or take the place of the one of that name; ``sqlite``: where its text differs."""
    if on_mysql():
        op.execute(f"CREATE OR REPLACE SQL SECURITY INVOKER VIEW {name} AS {mysql}")
    else:
        op.execute(f"DROP VIEW IF EXISTS {name}")
        op.execute(f"CREATE VIEW {name} AS {sqlite or mysql}")
    crash_point("sql.after-step")


def _has_foreign_key(table: str, name: str) -> bool:
    if context.is_offline_mode():
        return False
    return any(each["name"] == name for each in sa.inspect(op.get_bind()).get_foreign_keys(table))


def _is_partitioned(table: str) -> bool:
    if context.is_offline_mode():
        return False
    query = (
        "SELECT COUNT(*) FROM information_schema.partitions WHERE table_schema = DATABASE() AND table_name = :table "
        "AND partition_name IS NOT NULL"
    )
    return bool(op.get_bind().execute(sa.text(query), {"table": table}).scalar_one())
