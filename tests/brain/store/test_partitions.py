from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.store import partitions
from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.migrate import migrate
from convoy.brain.store.partitions import Partition, days_of, missing_days, reorganized
from convoy.brain.store.tables import TrainingSpeed
from convoy.core.api.errors import Unavailable
from convoy.sql.steps import FIRST_DAY, FUTURE, PAST
from support.speed_rows import count, store, windows

TODAY = date(2026, 11, 29)
EMPTY = [Partition(PAST, date.fromisoformat(FIRST_DAY)), Partition(FUTURE, None)]
days = st.dates(date(2020, 1, 1), date(2060, 1, 1))


def carried_out(table_partitions, split, made):
    kept = [one for one in table_partitions if one.name not in split]
    past = [Partition(PAST, made[0])] if PAST in split else []
    news = [Partition(f"p{day:%Y%m%d}", day + timedelta(days=1)) for day in made]
    return [*past, *kept, *news, Partition(FUTURE, None)]


@given(st.lists(days, min_size=1, max_size=5))
def test_whenever_it_runs_the_coming_week_has_its_days_and_no_day_is_there_twice(moments):
    table = EMPTY
    for today in moments:
        split, missing = missing_days(table, today)
        if missing:
            table = carried_out(table, split, missing)
        assert missing_days(table, today)[1] == []
        bounds = [one.before for one in table if one.before is not None]
        assert bounds == sorted(set(bounds))
        assert bounds[-1] >= today + timedelta(days=8)


def test_the_statement_keeps_both_outermost_partitions():
    first = reorganized("t", [PAST, FUTURE], [TODAY])
    assert first == (
        "ALTER TABLE t REORGANIZE PARTITION p_past, p_future INTO (PARTITION p_past VALUES LESS THAN ('2026-11-29'), "
        "PARTITION p20261129 VALUES LESS THAN ('2026-11-30'), PARTITION p_future VALUES LESS THAN (MAXVALUE))"
    )


@pytest.fixture
def own(mariadb):
    migrate(mariadb)
    engine = open_engine(mariadb)
    yield engine
    engine.dispose()


def of(engine):
    with reading(engine) as connection:
        return days_of(connection, "training_speed")


@pytest.mark.servers
class TestOnMariaDB:
    def test_a_migrated_store_has_a_month_behind_and_a_week_ahead(self, own):
        today = datetime.now(UTC).date()
        found = of(own)
        assert [found[0].name, found[-1].name] == [PAST, FUTURE]
        assert len(found) == 2 + partitions.BEHIND + 1 + partitions.AHEAD
        assert found[0].before == today - timedelta(days=partitions.BEHIND)
        assert partitions.make_days(own, today) == 0
        assert partitions.make_days(own, today + timedelta(days=2)) == 2 * len(partitions.TABLES)

    def test_rows_that_nobody_made_days_for_are_moved_to_theirs(self, own):
        today = datetime.now(UTC).date()
        ahead = datetime.now(UTC) + timedelta(days=20)
        rows = windows(1, ahead, 50)
        store(own, rows)
        assert partitions.make_days(own, today + timedelta(days=20)) > 0
        assert count(own, TrainingSpeed) == 50
        name = f"p{rows[-1]['ended_at']:%Y%m%d}"
        with reading(own) as connection:
            query = f"SELECT COUNT(*) FROM training_speed PARTITION ({name})"
            assert connection.exec_driver_sql(query).scalar_one() > 0

    def test_a_crowd_beyond_the_last_day_is_left_to_a_quiet_hour(self, own, monkeypatch):
        monkeypatch.setattr(partitions, "_MOST_COPIED", 10)
        store(own, windows(1, datetime.now(UTC) + timedelta(days=20), 50))
        later = datetime.now(UTC).date() + timedelta(days=20)
        assert partitions.make_days(own, later) == 20 * (len(partitions.TABLES) - 1)
        assert partitions.make_days(own, later, copy_any=True) == 20

    def test_the_next_migration_of_nobody_who_serves_moves_the_crowd(self, own, mariadb, monkeypatch):
        monkeypatch.setattr(partitions, "_MOST_COPIED", 10)
        days = [one.name for one in of(own)[-5:]]
        with own.connect() as connection:
            connection.exec_driver_sql(
                f"ALTER TABLE training_speed REORGANIZE PARTITION {', '.join(days)} INTO "
                f"(PARTITION {FUTURE} VALUES LESS THAN (MAXVALUE))"
            )
        rows = windows(1, datetime.now(UTC) + timedelta(days=5), 50)
        store(own, rows)
        migrate(mariadb)
        assert len(of(own)) == 2 + partitions.BEHIND + 1 + partitions.AHEAD - 4
        migrate(mariadb, move_all=True)
        assert len(of(own)) == 2 + partitions.BEHIND + 1 + partitions.AHEAD
        assert count(own, TrainingSpeed) == 50

    def test_old_days_go_and_what_came_even_earlier(self, own):
        now = datetime.now(UTC)
        store(own, windows(1, now - timedelta(days=50), 5))
        store(own, windows(1, now - timedelta(days=12), 5))
        store(own, windows(1, now - timedelta(days=2), 5))
        before = (now - timedelta(days=10)).replace(hour=0, minute=0, second=0, microsecond=0)
        assert partitions.drop_days(own, "training_speed", before) in (2, 3)  # one may lie on both sides of midnight
        assert len(of(own)) == 2 + 10 + 1 + partitions.AHEAD
        assert count(own, TrainingSpeed) == 5
        assert partitions.drop_days(own, "training_speed", before) == 0
        store(own, windows(1, now - timedelta(days=50), 5))
        assert count(own, TrainingSpeed) == 10

    def test_what_waits_for_a_table_in_use_gives_way(self, own):
        """Its lock is asked for a second at a time, so that who comes after it isn't held up longer."""
        with own.connect() as reader:
            reader.exec_driver_sql("SELECT * FROM training_speed LIMIT 1").all()
            with pytest.raises(Exception, match="Lock wait timeout"):
                partitions.in_turns(
                    own,
                    lambda connection: connection.exec_driver_sql(
                        f"ALTER TABLE training_speed DROP PARTITION p{datetime.now(UTC).date():%Y%m%d}"
                    ),
                    tries=2,
                )
        days = len(of(own))
        partitions.drop_days(own, "training_speed", datetime.now(UTC))
        assert len(of(own)) < days

    def test_a_table_in_use_is_waited_for_once_and_its_writers_wait_no_longer(self, own, monkeypatch):
        monkeypatch.setattr(partitions, "_TRIES", 1)
        said = []
        sa.event.listen(own, "before_cursor_execute", lambda *given: said.append(given[2]))
        with own.connect() as reader:
            reader.exec_driver_sql("SELECT * FROM training_speed LIMIT 1").all()
            with pytest.raises(Unavailable):
                partitions.make_days(own, datetime.now(UTC).date() + timedelta(days=1))
        assert not [statement for statement in said if "REORGANIZE" in statement]  # MariaDB would wait twice for it
        assert partitions.make_days(own, datetime.now(UTC).date() + timedelta(days=1)) == len(partitions.TABLES)
