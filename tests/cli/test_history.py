"""``convoy brain import`` and ``export`` as people type them: what they say, how they end, what they leave."""

from __future__ import annotations

import gzip
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic import command

from convoy.brain.store.engine import open_engine, writing
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import HistoryObservation
from convoy.cli import database, local
from convoy.sql.config import VERSION_TABLE, config, head
from support.brain_command import BrainCommand, Said
from support.command import COMMAND
from support.history_files import csv_text, many, write_csv, write_parquet

EXAMPLE = Path(__file__).parents[2] / "examples" / "history" / "digits.csv"
BAD = "b,0,10,resnet50\nb,1,fast,resnet50\nb,1\n"


class Brain:
    """``convoy brain import`` and ``export``."""

    def __init__(self, run: BrainCommand) -> None:
        self._run = run

    def imports(self, *arguments: str | Path) -> Said:
        return self._run("import", *arguments)

    def exports(self, *arguments: str | Path) -> Said:
        return self._run("export", *arguments)


@pytest.fixture
def brain(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Brain:
    return Brain(BrainCommand(monkeypatch, capsys))


def rows(file: Path) -> int:
    engine = open_engine(f"sqlite:///{file}", must_exist=True)
    with engine.begin() as connection:
        count: int = connection.execute(sa.select(sa.func.count()).select_from(HistoryObservation)).scalar_one()
    engine.dispose()
    return count


@pytest.fixture
def mixed(home: Path) -> Path:
    """Return a file of three good rows and three bad ones."""
    path = home / "mixed.csv"
    path.write_text(csv_text(many(3)) + BAD)
    return path


@pytest.fixture
def file(state_dir: Path) -> Path:
    """Return where the Brain's own database is, or would be."""
    return state_dir / "brain.db"


def test_an_import_makes_the_database_and_says_so(brain: Brain, file: Path) -> None:
    first = brain.imports(EXAMPLE)
    assert (first.status, first.err) == (0, "")
    assert first.out == f"database sqlite:///{file}: made, revision {head()}\ndigits.csv: 49 rows stored\n"
    assert brain.imports(EXAMPLE).out == "digits.csv: 0 rows stored, 49 there already\n"
    assert rows(file) == 49


def test_refused_rows_are_told_and_the_others_stored(brain: Brain, file: Path, mixed: Path) -> None:
    ended = brain.imports(mixed)
    assert ended.status == 1
    assert ended.out.splitlines()[1:] == [
        "mixed.csv: 3 rows stored, 3 refused",
        "  refused: 1 for workers: OutOfBounds",
        "  refused: 1 for throughput: NotANumber",
        "  refused: 1 for WrongFieldCount",
        "  mixed.csv line 5: workers is 0: expected processes that train between 1 and 1e+06; is the unit right?",
        "  mixed.csv line 6: throughput is 'fast': expected a plain number, mean speed, all workers together "
        "(samples/s)",
        "  mixed.csv line 7: 2 fields: expected 4, as the header has; is the line cut short?",
    ]
    assert rows(file) == 3


def test_so_many_refused_rows_are_shown_as_asked(brain: Brain, mixed: Path) -> None:
    ended = brain.imports(mixed, "--dry-run", "--show-refused", "1")
    assert "line 5" in ended.out
    assert "line 6" not in ended.out
    assert "  and 2 more; --show-refused N shows N\n" in ended.out
    none = brain.imports(mixed, "--dry-run", "--show-refused", "0")
    assert "line" not in none.out
    assert "  refused: 1 for WrongFieldCount\n" in none.out


def test_a_dry_run_says_all_and_leaves_nothing(home: Path, brain: Brain, mixed: Path) -> None:
    before = sorted(home.rglob("*"))
    ended = brain.imports(EXAMPLE, mixed, "--dry-run")
    assert ended.status == 1
    assert sorted(home.rglob("*")) == before
    said = ended.out
    assert "digits.csv: 49 rows would be stored\n" in said
    assert "  15 jobs, measured from 2026-11-29 15:55 to 2026-11-29 16:15 UTC\n" in said
    assert "  49 rows of origin: digits.py on 2 cores" in said
    assert (
        "  without accelerator: no job is found alike by its accelerator\n" in said
    )  # the column is there, and empty
    assert "mixed.csv: 3 rows would be stored, 3 would be refused\n" in said
    assert "  1 job, no row says when it was measured\n" in said
    assert "  columns with values: job, workers, throughput, model\n" in said
    assert "  without nodes: 1 is assumed\n" in said
    assert "  without origin: the file's name stands for it\n" in said
    assert re.search(r"  without worker_memory, .*grad_var: no prediction of speed reads them\n", said)
    assert said.endswith("dry run: nothing was stored\n")


def test_a_dry_run_knows_what_is_there_and_changes_none_of_it(home: Path, brain: Brain, file: Path) -> None:
    brain.imports(write_csv(home / "part.csv", many(3)))
    before = file.read_bytes()
    ended = brain.imports(write_parquet(home / "all.parquet", many(5)), "--dry-run")
    assert ended.status == 0
    assert "all.parquet: 2 rows would be stored, 3 there already\n" in ended.out
    assert file.read_bytes() == before
    assert rows(file) == 3


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_strict_stores_nothing_unless_all_rows_of_all_files_are_good(
    home: Path, brain: Brain, file: Path, mixed: Path, arguments: tuple[str, ...]
) -> None:
    good = write_csv(home / "good.csv", many(3))
    ended = brain.imports(good, mixed, "--strict", *arguments)
    assert ended.status == 1
    assert "mixed.csv line 7" in ended.out
    assert "strict" in ended.out.splitlines()[-1]
    assert not file.exists()
    assert brain.imports(good, "--strict").out.endswith("good.csv: 3 rows stored\n")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"job,worker,throughput\n", ["a.csv", "line 1", "'worker'", "did you mean workers"]),
        ("a.csv", b"", ["a.csv", "empty"]),
        ("a.parquet", b"job,workers,throughput\n", ["a.parquet", "not a Parquet file", ".csv"]),
        ("a.json", b"{}", ["a.json", ".parquet"]),
        ("a.csv", None, ["a.csv", "not a file"]),
    ],
)
def test_a_file_that_cannot_be_used_has_nothing_stored(
    home: Path, brain: Brain, file: Path, name: str, content: bytes | None, words: list[str]
) -> None:
    (home / name).mkdir() if content is None else (home / name).write_bytes(content)
    ended = brain.imports(EXAMPLE, home / name)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("convoy: history ")
    assert len(ended.err.splitlines()) == 1
    assert all(word in ended.err for word in words), ended.err
    assert not file.exists()


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_a_newer_database_is_refused(brain: Brain, file: Path, arguments: tuple[str, ...]) -> None:
    migrate(f"sqlite:///{file}")
    engine = open_engine(f"sqlite:///{file}")
    with engine.begin() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    engine.dispose()
    ended = brain.imports(EXAMPLE, *arguments)
    assert (ended.status, ended.out) == (2, "")
    assert "schema 9999 is newer" in ended.err
    assert rows(file) == 0


def test_an_older_database_is_brought_up_to_date_and_a_dry_run_leaves_it(brain: Brain, file: Path) -> None:
    url = f"sqlite:///{file}"
    engine = open_engine(url)
    settings = config()
    with writing(engine) as connection:
        settings.attributes["connection"] = connection
        command.upgrade(settings, "0001")
    engine.dispose()
    before = file.read_bytes()
    assert "digits.csv: 49 rows would be stored\n" in brain.imports(EXAMPLE, "--dry-run").out
    assert file.read_bytes() == before
    assert brain.imports(EXAMPLE).out == (
        f"database {url}: revision 0001 before, revision {head()} now\ndigits.csv: 49 rows stored\n"
    )


def test_a_dry_run_refuses_a_database_that_an_import_would(home: Path, brain: Brain) -> None:
    url = f"sqlite:///{home}/none/brain.db"
    for arguments in ((), ("--dry-run",)):
        ended = brain.imports(EXAMPLE, "--database-url", url, *arguments)
        assert ended.status == 2
        assert "its folder" in ended.err


def test_an_import_goes_to_the_brain_of_this_machine(
    home: Path, state_dir: Path, brain: Brain, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(local.open_cluster()) as cluster:
        monkeypatch.setenv(database.VARIABLE, f"sqlite:///{home}/kept.db")
        database.settle(cluster)
        monkeypatch.delenv(database.VARIABLE)
    assert brain.imports(EXAMPLE).status == 0
    assert rows(home / "kept.db") == 49
    assert not (state_dir / "brain.db").exists()
    assert brain.exports("-").out.count("\n") == 50


def test_an_export_is_what_was_imported(home: Path, brain: Brain) -> None:
    given = [{**row, "throughput": 0.1 * (number + 1)} for number, row in enumerate(many(4))]
    brain.imports(write_csv(home / "given.csv", given))
    ended = brain.exports("-")
    assert ended.status == 0
    assert ended.err == "4 rows, 4 of them imported and 0 measured\n"
    lines = ended.out.splitlines()
    assert [line.split(",")[0] for line in lines] == ["job", *(["job-0"] * 4)]
    assert "0.30000000000000004" in lines[3]
    for name in ("out.csv", "out.csv.gz", "out.parquet"):
        ended = brain.exports(home / name)
        assert ended.out == f"{home / name}: 4 rows, 4 of them imported and 0 measured\n"
        assert brain.imports(home / name).out == f"{name}: 0 rows stored, 4 there already\n"
    assert (home / "out.csv").read_text() == "\n".join([*lines, ""])
    assert gzip.decompress((home / "out.csv.gz").read_bytes()) == (home / "out.csv").read_bytes()


def test_an_export_replaces_a_file_only_if_told_to(home: Path, brain: Brain) -> None:
    brain.imports(write_csv(home / "given.csv", many(2)))
    before = (home / "given.csv").read_bytes()
    ended = brain.exports(home / "given.csv")
    assert ended.status == 2
    assert "--force" in ended.err
    assert (home / "given.csv").read_bytes() == before
    assert brain.exports(home / "given.csv", "--force").status == 0
    assert (home / "given.csv").read_bytes() != before


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["out.csv", "--job", "nobody"], 1, "job 'nobody'"),
        (["out.csv", "--since", "yesterday"], 2, "--since yesterday: expected a day, as 2026-01-31"),
        (["out.csv", "--since", "2026-01-31T12:00:00"], 2, "a moment with its zone"),
        (["out.csv", "--origin", "guessed"], 2, "guessed"),
        (["out.json"], 2, "its name says no format"),
        (["none/out.csv"], 2, "can't be written"),
    ],
)
def test_an_export_that_cannot_be(
    home: Path,
    brain: Brain,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
    words: str,
) -> None:
    migrate(f"sqlite:///{file}")
    monkeypatch.chdir(home)
    ended = brain.exports(*arguments)
    assert ended.status == status
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert list(home.glob("*out*")) == []


def test_an_export_needs_a_database(home: Path, brain: Brain, file: Path) -> None:
    ended = brain.exports(home / "out.csv")
    assert ended.status == 2
    assert "no such file" in ended.err
    assert not file.exists()


def test_since_a_day_means_since_it_began_in_utc(home: Path, brain: Brain) -> None:
    brain.imports(EXAMPLE)
    assert brain.exports("-", "--since", "2026-11-29").out.count("\n") == 50
    assert brain.exports("-", "--since", "2026-11-30").out.count("\n") == 1
    assert brain.exports("-", "--since", "2026-11-29T17:10:00+01:00").out.count("\n") in range(2, 50)


def test_a_reader_that_goes_away_ends_it_quietly(home: Path, brain: Brain) -> None:
    brain.imports(write_csv(home / "given.csv", many(20_000)))
    with subprocess.Popen(
        [*COMMAND, "brain", "export", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as export:
        assert export.stdout is not None
        assert export.stderr is not None
        assert export.stdout.readline().startswith(b"job,")
        export.stdout.close()
        assert (export.stderr.read(), export.wait(30)) == (b"", 1)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    leader, follower = pty.openpty()
    yield leader, follower
    os.close(leader)


def test_progress_is_shown_on_a_terminal_alone(home: Path, brain: Brain, terminal: tuple[int, int]) -> None:
    path = write_csv(home / "given.csv", many(12_000))
    leader, follower = terminal
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    importing = [*COMMAND, "brain", "import", str(path), "--dry-run"]
    with subprocess.Popen(importing, stdout=subprocess.PIPE, stderr=follower, env=environment) as process:
        os.close(follower)
        shown = b""
        while chunk := _read(leader):
            shown += chunk
        assert process.stdout is not None
        out = process.stdout.read().decode()
    assert b"given.csv" in shown
    assert b"12000 rows" in shown
    assert out.startswith("given.csv: 12000 rows would be stored\n")
    assert brain.imports(path, "--dry-run").err == ""


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # Linux says so where the other side was closed
        return b""
