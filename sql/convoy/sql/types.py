"""Column types of the store, the same on MySQL, MariaDB and SQLite.

Released migrations use these: give a column that needs something else a new type here, and leave these as they are.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import mysql
from sqlalchemy.engine import Dialect
from sqlalchemy.types import TypeDecorator, TypeEngine

TABLE_OPTIONS: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}
"""Each table's: any character, and names that differ in case or accent differ. (SQLite compares so by itself.)"""

TIME_SERIES_OPTIONS: dict[str, Any] = {**TABLE_OPTIONS, "sqlite_with_rowid": False}
"""A time series lies in the order of its key on both: a job's windows are read in one sweep. Its key holds its time
and it has no foreign key, so that MySQL can keep it in partitions by day."""


class UtcDateTime(TypeDecorator[datetime]):
    """A moment, to the microsecond: aware UTC in Python, DATETIME(6) without a zone in the database."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return DATETIME(6) on MySQL; SQLite keeps text that sorts by time."""
        if dialect.name == "mysql":
            return dialect.type_descriptor(mysql.DATETIME(fsp=6))
        return dialect.type_descriptor(sa.DateTime())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Drop the zone, after conversion to UTC; a moment without one is a mistake of the caller's."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"{value!r} has no time zone: the store takes aware moments only")
        return (value if value.tzinfo is UTC else value.astimezone(UTC)).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Put UTC back."""
        return None if value is None else value.replace(tzinfo=UTC)


ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""A number that the database hands out (SQLite only does so for INTEGER)."""


def name_type(length: int) -> sa.String:
    """Return the type of an identifier of up to ``length`` characters."""
    return sa.String(length)
