"""The batch as a process: once, or for each window as it ends, until told to stop; with a report a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from convoy.brain.batch.pipeline import Ending, Outcome, last_run, run_window
from convoy.brain.batch.summary import page
from convoy.brain.batch.window import Window, last_window
from convoy.brain.batch.work import Surroundings
from convoy.brain.store.runs import Run
from convoy.core.api.errors import ConvoyError, Unusable
from convoy.core.process import logs
from convoy.core.process.files import write_atomically

log = logs.get("brain.batch")

LEAST_DEADLINE = 600.0
"""Seconds that a run has at least where nobody says how many."""
_LOOK_SECONDS = 30.0
"""A clock that was set meanwhile is noticed so soon."""
_AFTER_SECONDS = 5.0
"""So long after a window's end its run begins: what was on its way is there."""


@dataclass(frozen=True, slots=True)
class Told:
    """How a run went, and where its report is; None: there is none.

    Attributes:
        unreported: why a report couldn't be written.
    """

    window: Window
    outcome: Outcome
    report: Path | None
    unreported: str = ""


def run_once(around: Surroundings, length: timedelta, seconds: float | None) -> Told:
    """Run the batch for the last window that is over.

    Args:
        around: what it works with.
        length: of the window.
        seconds: after which the run is broken off; None: the window's length, at least ten minutes.
    """
    window = last_window(datetime.fromtimestamp(around.clock.now(), UTC), length)
    limit = max(length.total_seconds(), LEAST_DEADLINE) if seconds is None else seconds
    outcome = run_window(around, window, limit)
    try:
        return Told(window, outcome, _reported(around, window, outcome))
    except ConvoyError as error:
        log.warning("the report couldn't be written", reason=error.reason, why=str(error))
        return Told(window, outcome, None, str(error))


def run_every(around: Surroundings, length: timedelta, seconds: float | None, on_run: Callable[[Told], None]) -> None:
    """Run the batch for each window as it ends, and for the last one at once; return when told to stop.

    Args:
        around: what it works with.
        length: of the windows.
        seconds: as in ``run_once``.
        on_run: is told of each run.
    """
    while not around.stop.is_set():
        told = run_once(around, length, seconds)
        on_run(told)
        due = told.window.next_end + timedelta(seconds=min(_AFTER_SECONDS, length.total_seconds() / 10))
        while not around.stop.is_set():
            left = due.timestamp() - around.clock.now()
            if left <= 0 or around.stop.wait(min(left, _LOOK_SECONDS)):
                break


def report_file(folder: Path, run: Run) -> Path:
    """Return where the report of a run is written."""
    form = "%Y%m%dT%H%M%SZ"
    return folder / f"batch-{run.window_from:{form}}-{run.window_until:{form}}-{run.mode}.md"


def _reported(around: Surroundings, window: Window, outcome: Outcome) -> Path | None:
    """Write the report of a run as its row has it.

    Raises:
        ConvoyError: it can't be written.
    """
    if outcome.ending is Ending.BUSY or outcome.run is None:
        return None
    folder = around.settings.reports_folder()
    run = last_run(around, window) or outcome.run
    file = report_file(folder, run)
    if outcome.ending is not Ending.ALREADY or not file.exists():
        _make(folder)
        write_atomically(file, page(run).encode())
    return file


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(
            f"reports folder {folder}: {error.strerror}; name another with CONVOY_REPORTS_DIR",
            reason="ReportsFolderUnwritable",
        ) from error
