"""The days of the large series on MySQL: partitions made ahead of time, and dropped when they are old.

Between the outermost partitions, which take whatever is older or newer, lies one a day. Days are made a week ahead,
while the newest partition is empty: that takes no time. Rows that got there first (nobody made days for a week) would
have to be copied with the table's writes held up, so a crowd of them is left where it is, and said so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import partial
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from convoy.brain.store.engine import reading
from convoy.brain.store.locks import exclusive
from convoy.brain.store.turns import in_turns
from convoy.core.process import logs
from convoy.core.process.crashpoint import crash_point
from convoy.sql.steps import FIRST_DAY, FUTURE, PAST

log = logs.get("brain.store")
T = TypeVar("T")

TABLES = ("training_speed", "job_node_load", "node_load", "training_speed_1m", "job_node_load_1m", "node_load_1m")
AHEAD = 7
BEHIND = 31
"""So many days before today are made at first: what comes late in the first month has its day."""
_MOST_COPIED = 100_000
_LOCK_SECONDS = 50.0
_TRIES = 12
_PAUSE = 1.0
"""Who writes a table waits while its partitions wait for a reader: the tries lie apart, for writers to get on."""
_ROWS = sa.text(
    "SELECT partition_name, partition_description FROM information_schema.partitions WHERE table_schema = DATABASE() "
    "AND table_name = :table AND partition_name IS NOT NULL ORDER BY partition_ordinal_position"
)


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition by its name; it holds what is earlier than ``before``, None: everything."""

    name: str
    before: date | None


def days_of(connection: Connection, table: str) -> list[Partition]:
    """Return a table's partitions in the order of time; none where it isn't partitioned."""
    if connection.dialect.name != "mysql":
        return []
    found = connection.execute(_ROWS, {"table": table}).all()
    return [Partition(name, None if bound == "MAXVALUE" else _day(bound)) for name, bound in found]


def make_days(engine: Engine, today: date, *, copy_any: bool = False) -> int:
    """Make the days that are missing up to a week from ``today``; return how many were made. Nothing on SQLite.

    Args:
        engine: of the store.
        today: in UTC.
        copy_any: take the time that it takes, where rows lie beyond the last day; writes wait meanwhile.

    Raises:
        Unavailable: the database can't be reached, or the tables stayed in use.
    """
    if engine.dialect.name != "mysql":
        return 0
    with exclusive(engine, "days", _LOCK_SECONDS):
        return sum(_in_turns(engine, _maker(table, today, copy_any)) for table in TABLES)


def _maker(table: str, today: date, copy_any: bool) -> Callable[[Connection], int]:
    def make(connection: Connection) -> int:
        split, missing = missing_days(days_of(connection, table), today)
        if not missing:
            return 0
        if not copy_any and _is_crowded(connection, table):
            log.warning(
                "rows lie beyond the last day's partition, too many to be moved beside others; run `convoy brain "
                "migrate` while no Brain serves",
                table=table,
            )
            return 0
        _reorganize(connection, table, reorganized(table, split, missing))
        crash_point("partitions.after-days")
        return len(missing)

    return make


def missing_days(partitions: Sequence[Partition], today: date) -> tuple[list[str], list[date]]:
    """Return which partitions are to be split, and the days that come in their place. Pure."""
    bounds = [one.before for one in partitions if one.before is not None]
    last = today + timedelta(days=AHEAD)
    if len(partitions) == 2 and bounds == [date.fromisoformat(FIRST_DAY)]:
        first = today - timedelta(days=BEHIND)
        return [PAST, FUTURE], _days(first, last)
    if not bounds:
        return [], []
    return [FUTURE], _days(bounds[-1], last)


def reorganized(table: str, split: Sequence[str], days: Sequence[date]) -> str:
    """Return the statement that puts days in the place of the outermost partitions."""
    past = [f"PARTITION {PAST} VALUES LESS THAN ('{days[0]}')"] if PAST in split else []
    made = [f"PARTITION p{day:%Y%m%d} VALUES LESS THAN ('{day + timedelta(days=1)}')" for day in days]
    future = f"PARTITION {FUTURE} VALUES LESS THAN (MAXVALUE)"
    return f"ALTER TABLE {table} REORGANIZE PARTITION {', '.join(split)} INTO ({', '.join([*past, *made, future])})"


def drop_days(engine: Engine, table: str, before: datetime) -> int:
    """Drop the days that end at or before a moment, and what is older than all days.

    Returns:
        How many of them held rows.

    Raises:
        Unavailable: the database can't be reached, or the table stayed in use.
    """
    with reading(engine) as connection:
        old = _ended(days_of(connection, table), before)
    emptied = 0
    for partition in old:
        emptied += _in_turns(engine, partial(_empty, table, partition.name))
        crash_point("partitions.after-drop")
    if len(old) > 1:
        _in_turns(engine, partial(_give_to_past, table, before))
    return emptied


def _in_turns(engine: Engine, work: Callable[[Connection], T]) -> T:
    return in_turns(engine, work, tries=_TRIES, pause=_PAUSE)


def _ended(partitions: Sequence[Partition], before: datetime) -> list[Partition]:
    return [one for one in partitions if one.before is not None and _midnight(one.before) <= before]


def _empty(table: str, name: str, connection: Connection) -> bool:
    """Empty a partition; return whether it held rows."""
    if not any(one.name == name for one in days_of(connection, table)):  # somebody else was quicker
        return False
    if connection.exec_driver_sql(f"SELECT 1 FROM {table} PARTITION ({name}) LIMIT 1").first() is None:
        return False
    connection.exec_driver_sql(f"ALTER TABLE {table} TRUNCATE PARTITION {name}")
    return True


def _give_to_past(table: str, before: datetime, connection: Connection) -> None:
    """Put the oldest partition in the place of ended days, so that what comes late isn't taken for the next day's."""
    old = _ended(days_of(connection, table), before)
    if len(old) < 2:
        return
    names = ", ".join(one.name for one in old)
    past = f"PARTITION {PAST} VALUES LESS THAN ('{old[-1].before}')"
    _reorganize(connection, table, f"ALTER TABLE {table} REORGANIZE PARTITION {names} INTO ({past})")


def _reorganize(connection: Connection, table: str, statement: str) -> None:
    """Run the statement, unless somebody has the table in use for longer than a lock is waited for.

    MariaDB waits twice before it gives a REORGANIZE up, and who writes the table waits as long. What is asked first
    needs the same lock, waits once, and changes nothing: InnoDB has no keys that are off.
    """
    connection.exec_driver_sql(f"ALTER TABLE {table} ENABLE KEYS")
    connection.exec_driver_sql(statement)


def _is_crowded(connection: Connection, table: str) -> bool:
    query = f"SELECT COUNT(*) FROM (SELECT 1 FROM {table} PARTITION ({FUTURE}) LIMIT {_MOST_COPIED + 1}) some"
    return int(connection.exec_driver_sql(query).scalar_one()) > _MOST_COPIED


def _days(first: date, last: date) -> list[date]:
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def _day(bound: str) -> date:
    return date.fromisoformat(bound.strip("'")[:10])


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
