"""``convoy brain collect``: load of machines and pods out of Prometheus, as it comes or for a range of the past."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from convoy.cli.screen import counted, screen
from convoy.core.api.errors import InvalidInput

if TYPE_CHECKING:
    from convoy.brain.ingest.prometheus.findings import Finding
    from convoy.brain.settings import BrainSettings

_BETWEEN_LINES = 5.0  # seconds between two lines of progress where the output isn't a terminal


def settings_of(
    every: str | None,
    *,
    queries: Path | None,
    prometheus_url: str | None,
    cluster: str | None,
    database_url: str | None,
) -> BrainSettings:
    """Return the settings with what the command line says.

    Raises:
        InvalidSetting, InvalidInput: a value can't be right.
    """
    from convoy.brain.settings import BrainSettings

    return BrainSettings.load(
        load_step_seconds=None if every is None else _duration(every),
        prometheus_queries=queries,
        prometheus_url=prometheus_url,
        cluster=cluster,
        database_url=database_url,
    )


def show_queries(settings: BrainSettings) -> None:
    """Print the queries that are in force.

    Raises:
        InvalidSetting: the queries file can't be right.
    """
    from convoy.brain.ingest.prometheus.queries import load
    from convoy.brain.ingest.prometheus.queries_text import as_toml

    sys.stdout.write(as_toml(load(settings.prometheus_queries), settings.load_step_seconds))


def collect_once(settings: BrainSettings) -> None:
    """Collect what is due, and say what came of it.

    Raises:
        InvalidSetting, Unusable, UnknownSchema: it can't be done so.
        Unavailable: Prometheus or the database is away.
    """
    from convoy.brain.ingest.prometheus.process import once

    for sentence in once(settings, _tell).sentences():
        screen().print(sentence)


def fill(settings: BrainSettings, since: str, until: str | None) -> None:
    """Collect a range of the past, show how far it is, and say what came of it.

    Raises:
        InvalidInput: the range holds no moment, or its ends can't be read.
        InvalidSetting, Unusable, UnknownSchema, Unavailable: as for ``collect_once``.
    """
    from convoy.brain.ingest.prometheus import process

    begin = _moment("--from", since)
    end = None if until is None else _moment("--until", until)
    with _progress() as on_chunk:
        filled = process.fill(settings, begin, end, _tell, on_chunk)
    if filled.too_old:
        screen().print(
            f"{counted(filled.too_old, 'moment')} left out, older than what the store keeps (keep_load_days)"
        )
    for sentence in filled.tally.sentences():
        screen().print(sentence)


def _duration(every: str) -> int:
    from convoy.brain.ingest.prometheus.durations import seconds_of

    try:
        return seconds_of(f"{every}s" if every.isdigit() else every)
    except ValueError as error:
        raise InvalidInput(f"--every: {error}") from None


def _moment(option: str, text: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidInput(
            f"{option} {text}: expected a moment such as 2026-01-31, 2026-01-31T08:00 or 2026-01-31T08:00+01:00 "
            "(UTC where no zone is given)"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _tell(finding: Finding, came: bool) -> None:
    kind = "note" if finding.note or not came else "warning"
    screen(sys.stderr).print(f"{kind}: {finding.message if came else finding.over}", soft_wrap=True)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show how many moments are done: as a bar on a terminal, elsewhere as a line every few seconds."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("moments"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=screen(sys.stderr), transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def _lines() -> Callable[[int, int], None]:
    said = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal said
        if time.monotonic() - said >= _BETWEEN_LINES:
            said = time.monotonic()
            screen(sys.stderr).print(f"{done} of {total} moments")

    return tell
