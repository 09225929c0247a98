import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from convoy.brain.store.engine import open_engine, parse_url, reading
from convoy.brain.store.migrate import Migration, migrate, require_schema
from convoy.brain.store.tables import Base
from convoy.core.api.errors import UnknownSchema, Unusable
from convoy.sql import render
from convoy.sql.config import VERSION_TABLE, head

MIGRATE = "import sys; from convoy.brain.store.migrate import migrate; print(migrate(sys.argv[1]).before)"


def tables(url: str) -> set[str]:
    engine = open_engine(url)
    with reading(engine) as connection:
        found = set(sa.inspect(connection).get_table_names())
    engine.dispose()
    return found


def test_a_migrated_database_has_the_typed_tables_and_nothing_else_to_do(url):
    assert migrate(url) == Migration(before=None, after=head())
    assert migrate(url) == Migration(before=head(), after=head())
    engine = open_engine(url)
    require_schema(engine)
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_two_brains_that_start_together_end_with_one_schema(url):
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATE, url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    outcomes = [process.communicate(timeout=50) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outcomes
    assert sorted(output.strip() for output, _ in outcomes) == [head(), head(), "None"]
    assert tables(url) == {*Base.metadata.tables, VERSION_TABLE}


@pytest.mark.parametrize("step", [1, 4, 9, 15])
def test_a_migration_that_was_killed_is_carried_on(url, step, monkeypatch):
    monkeypatch.setenv("CONVOY_CRASH_AT", f"sql.after-step:{step}")
    killed = subprocess.run([sys.executable, "-c", MIGRATE, url], capture_output=True, timeout=50)
    assert killed.returncode == -9
    monkeypatch.delenv("CONVOY_CRASH_AT")
    assert migrate(url).after == head()
    engine = open_engine(url)
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


def test_a_database_with_somebody_elses_tables_is_left_alone(url):
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE job (title VARCHAR(20))"))
    with pytest.raises(Unusable, match="table 'job' that Convoy didn't make"):
        migrate(url)
    engine.dispose()
    assert tables(url) == {"job"}


def test_a_newer_versions_schema_is_refused(url):
    migrate(url)
    engine = open_engine(url)
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(UnknownSchema, match="9999 is newer"):
        migrate(url)
    with pytest.raises(UnknownSchema, match="upgrade Convoy"):
        require_schema(engine)
    engine.dispose()


def test_a_database_without_the_schema_names_the_command(url):
    engine = open_engine(url)
    with pytest.raises(Unusable, match="convoy brain migrate"):
        require_schema(engine)
    engine.dispose()


def test_the_rendered_script_is_what_the_migrations_say(tmp_path, capsys):
    assert render.main(["--check"]) == 0
    stale = tmp_path / "schema.sql"
    stale.write_text("-- old\n")
    assert render.main(["--check", "--output", str(stale)]) == 1
    assert "python -m convoy.sql.render" in capsys.readouterr().err
    assert render.main(["--output", str(stale)]) == 0
    assert render.main(["--check", "--output", str(stale)]) == 0


@pytest.mark.servers
def test_the_rendered_script_makes_the_same_schema_by_hand(mariadb):
    script = (Path(render.__file__).parents[2] / "schema.mysql.sql").read_text()
    engine = sa.create_engine(parse_url(mariadb))
    with engine.begin() as connection:
        for statement in script.split(";\n"):
            connection.exec_driver_sql(statement) if statement.strip() else None
    engine.dispose()
    assert migrate(mariadb) == Migration(before=head(), after=head())
    engine = open_engine(mariadb)
    with reading(engine) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    engine.dispose()


@pytest.mark.servers
def test_identifiers_that_differ_in_case_differ_on_mariadb(mariadb):
    migrate(mariadb)
    engine = open_engine(mariadb)
    with reading(engine) as connection:
        query = "SELECT DISTINCT collation_name FROM information_schema.columns WHERE table_schema = DATABASE() AND "
        found = connection.exec_driver_sql(
            query + f"collation_name IS NOT NULL AND table_name <> '{VERSION_TABLE}'"
        ).scalars()
        assert set(found) == {"utf8mb4_bin"}
    engine.dispose()
