"""``convoy brain import`` and ``convoy brain export``: history from files into the Brain's store, and out of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from convoy.cli import database, local
from convoy.cli.history_report import planned, refusals, stored
from convoy.cli.screen import counted, screen
from convoy.core.api.errors import InvalidInput

if TYPE_CHECKING:
    from sqlalchemy.engine import Engine

    from convoy.brain.ingest.history import Imported
    from convoy.brain.ingest.history.sinks import Sink
    from convoy.brain.ingest.history.writers import Writer
    from convoy.brain.settings import BrainSettings

STDOUT = Path("-")


def run_import(
    files: Sequence[Path], *, database_url: str | None, dry_run: bool, strict: bool, show_refused: int
) -> int:
    """Import the files, or say what importing them would do.

    Returns:
        0 where all rows are good, else 1.

    Raises:
        InvalidInput: one of the files can't be used at all; nothing was stored.
        Unusable, UnknownSchema: the database can't be used.
        Unavailable: it went away; what was stored stays, and importing again adds the rest.
    """
    from convoy.brain.ingest.history import open_history

    for file in files:  # all of them before anything is stored
        open_history(file).close()
    with _settings(database_url) as settings:
        if dry_run:
            return _rehearse(files, settings, strict=strict, show_refused=show_refused)
        if strict and not _all_good(files, show_refused):
            return 1
        return _store(files, settings, strict=strict, show_refused=show_refused)


def run_export(
    file: Path,
    *,
    database_url: str | None,
    jobs: Sequence[str],
    origin: Literal["measured", "imported"] | None,
    since: str | None,
    force: bool,
) -> None:
    """Write the store's history to a file, or as CSV to stdout.

    Raises:
        InvalidInput: the file is there already, or its name says no format; ``since`` is no moment.
        NotFound: the store has nothing of one of the jobs.
        Unusable: the database can't be used, or the file can't be written.
    """
    from convoy.brain.ingest.history.export import Wanted, exported
    from convoy.brain.ingest.history.file import printable
    from convoy.brain.ingest.history.writers import CsvWriter, writing_history
    from convoy.brain.store.engine import check
    from convoy.brain.store.migrate import require_schema

    wanted = Wanted(tuple(jobs), origin, None if since is None else _moment(since))
    with _settings(database_url) as settings:
        url = settings.database()
        check(url, must_exist=True)
        with _engine(url) as engine:
            require_schema(engine)
            chunks = exported(engine, wanted)
            if file != STDOUT:
                with writing_history(file, replace=force) as writer:
                    said = _write(chunks, writer)
                screen().print(f"{printable(str(file))}: {said}")
                return
            with _whole_pipe():
                said = _write(chunks, CsvWriter(sys.stdout.buffer))
                sys.stdout.buffer.flush()
            screen(sys.stderr).print(said)


def _rehearse(files: Sequence[Path], settings: BrainSettings, *, strict: bool, show_refused: int) -> int:
    from convoy.brain.ingest.history.sinks import Rehearsal

    refused = 0
    with _present(settings) as engine, closing(Rehearsal(engine)) as rehearsal:
        for file in files:
            outcome = _take(file, rehearsal, show_refused)
            screen().print(planned(outcome))
            refused += outcome.refused.rows
    left = "; with --strict nothing would be" if strict and refused else ""
    screen().print(f"dry run: nothing was stored{left}")
    return 1 if refused else 0


def _all_good(files: Sequence[Path], show_refused: int) -> bool:
    from convoy.brain.ingest.history.sinks import Rehearsal

    refused = 0
    for file in files:
        with closing(Rehearsal(None)) as rehearsal:
            outcome = _take(file, rehearsal, show_refused)
        if outcome.refused.rows:
            screen().print(f"{outcome.file}: {counted(outcome.refused.rows, 'row')} refused")
            screen().print(refusals(outcome.refused))
        refused += outcome.refused.rows
    if refused:
        screen().print("strict: nothing was stored; correct these rows, or leave out --strict to store the others")
    return not refused


def _store(files: Sequence[Path], settings: BrainSettings, *, strict: bool, show_refused: int) -> int:
    from convoy.brain.ingest.history.sinks import Store
    from convoy.brain.store.engine import shown
    from convoy.brain.store.migrate import migrate
    from convoy.brain.store.tables import IMPORTED

    url = settings.database()
    done = migrate(url)
    if done.before is None:
        screen().print(f"database {shown(url)}: made, revision {done.after}")
    elif done.before != done.after:
        screen().print(f"database {shown(url)}: revision {done.before} before, revision {done.after} now")
    refused = 0
    with _engine(url) as engine:
        store = Store(engine, IMPORTED, datetime.now(UTC))
        for file in files:
            outcome = _take(file, store, show_refused)
            screen().print(stored(outcome))
            refused += outcome.refused.rows
    if refused and strict:
        raise InvalidInput("strict: a file changed while it was read; the rows above were refused, others stored")
    return 1 if refused else 0


def _take(file: Path, sink: Sink, show_refused: int) -> Imported:
    from convoy.brain.ingest.history import open_history, take

    with open_history(file) as history, _progress(history.name, history.size) as advance:
        return take(
            history, sink, most_shown=show_refused, told=lambda outcome: advance(history.position(), outcome.rows)
        )


def _write(chunks: Iterator[list[dict[str, object]]], writer: Writer) -> str:
    """Write the rows and return what was written in words."""
    rows, measured = 0, 0
    with _progress("export", None) as advance:
        for chunk in chunks:
            writer.write(chunk)
            rows += len(chunk)
            measured += sum(row["origin"] == "measured" for row in chunk)
            advance(rows, rows)
    return f"{counted(rows, 'row')}, {rows - measured} of them imported and {measured} measured"


@contextmanager
def _progress(name: str, total: int | None) -> Iterator[Callable[[int, int], None]]:
    """Show progress on a terminal, and on anything else nothing. Gives what is called with position and rows."""
    if not sys.stderr.isatty():
        yield lambda _position, _rows: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn())
    rows_column = TextColumn("{task.fields[rows]} rows", markup=False)
    with Progress(*columns, rows_column, TimeRemainingColumn(), console=screen(sys.stderr), transient=True) as bar:
        task = bar.add_task(name, total=total, rows=0)
        yield lambda position, rows: bar.update(task, completed=position, rows=rows)


@contextmanager
def _settings(database_url: str | None) -> Iterator[BrainSettings]:
    """Give the settings with the database that this machine's Brain has, unless another one is named."""
    from convoy.brain.settings import BrainSettings

    cluster = local.existing_cluster()
    try:
        yield BrainSettings.load(database_url=database_url or database.for_readers(cluster))
    finally:
        if cluster is not None:
            cluster.close()


@contextmanager
def _engine(url: str) -> Iterator[Engine]:
    from convoy.brain.store.engine import open_engine

    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _present(settings: BrainSettings) -> Iterator[Engine | None]:
    """Give an engine on the store for reading, None where an import would make the store. Makes nothing.

    Raises:
        InvalidSetting, Unusable, UnknownSchema: an import couldn't use it.
    """
    from convoy.brain.store.engine import check, parse_url, reading
    from convoy.brain.store.migrate import require_ours, revision

    given = settings.database_url.get_secret_value() if settings.database_url else ""
    url = given or f"sqlite:///{settings.state_dir / 'brain.db'}"
    parsed = parse_url(url)
    file = Path(str(parsed.database)) if parsed.get_backend_name() == "sqlite" else None
    if file is not None and not (file.is_file() and file.stat().st_size):
        if given:
            with _engine(url):  # sees to it that the folder is there
                pass
        yield None
        return
    check(url)
    require_ours(url)
    with _engine(url) as engine:
        with reading(engine) as connection:
            found = revision(connection)
        yield None if found is None else engine


@contextmanager
def _whole_pipe() -> Iterator[None]:
    """End quietly where the reader of stdout went away, as ``head`` does."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python writes at its end
        raise SystemExit(1) from None


def _moment(text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is None and len(text) <= len("2026-01-31"):
        moment = moment.replace(tzinfo=UTC)  # a day alone begins in UTC
    if moment is None or moment.tzinfo is None:
        raise InvalidInput(
            f"--since {text}: expected a day, as 2026-01-31, or a moment with its zone, as 2026-01-31T12:00:00Z"
        )
    return moment.astimezone(UTC)
