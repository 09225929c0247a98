"""What ``convoy brain batch`` runs, and shows of it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from convoy.cli import database, local
from convoy.cli.screen import Working, screen
from convoy.core.api.errors import InvalidInput

if TYPE_CHECKING:
    import threading

    from convoy.brain.batch.process import Told
    from convoy.brain.batch.work import Surroundings
    from convoy.brain.store.runs import Run


def length(text: str, option: str) -> timedelta:
    """Return a length of time such as ``1h``.

    Raises:
        InvalidInput: it isn't one.
    """
    from convoy.brain.ingest.prometheus.durations import seconds_of

    try:
        seconds = seconds_of(text)
    except ValueError as error:
        raise InvalidInput(f"{option} {text!r}: {error}") from None
    if seconds <= 0:
        raise InvalidInput(f"{option} {text!r}: expected more than nothing")
    return timedelta(seconds=seconds)


def run(
    database_url: str | None,
    *,
    mode: str,
    window: timedelta,
    repeated: bool,
    deadline: float | None,
    where: str,
    as_json: bool,
) -> int:
    """Run the batch once, or for each window until told to stop; return the exit status.

    Raises:
        InvalidInput, InvalidSetting, Unusable, UnknownSchema, Unavailable: it can't be begun.
    """
    # The models' matrices are small, and where they are fitted mustn't show in them: one thread, here and on workers.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    if not repeated:
        os.environ.setdefault("CONVOY_LOG_LEVEL", "error")  # it says itself what it did
    from convoy.core.process import logs
    from convoy.core.process.signals import stop_event

    logs.configure("batch")
    stop = stop_event()
    with _Shown() as progress, _surroundings(database_url, mode, where, progress, stop) as around:
        if around is None:
            return 0
        from convoy.brain.batch.process import run_every, run_once

        if repeated:

            def tell(told: Told) -> None:
                progress.clear()
                _tell(told, as_json=as_json)
                progress("", f"waiting until the window to {told.window.next_end:%Y-%m-%d %H:%M} UTC is over")

            run_every(around, window, deadline, tell)
            return 0
        told = run_once(around, window, deadline)
        progress.clear()
        _tell(told, as_json=as_json)
        return 1 if told.outcome.ending.value == "failed" else 0


@contextmanager
def _surroundings(
    database_url: str | None, mode: str, where: str, progress: _Shown, stop: threading.Event
) -> Iterator[Surroundings | None]:
    """Give what the batch works with; None where the process was told to stop meanwhile."""
    from convoy.brain.batch.engines import fitter_of
    from convoy.brain.batch.work import Mode, Surroundings
    from convoy.brain.features.capacity_file import given_by
    from convoy.brain.settings import BrainSettings
    from convoy.brain.store.engine import check, open_engine
    from convoy.brain.store.migrate import migrate_when_up
    from convoy.brain.store.model_files import Registry
    from convoy.core.process.clock import SystemClock

    cluster = local.existing_cluster()
    settings = BrainSettings.load(database_url=database_url or database.for_readers(cluster))
    if settings.capacity_file is not None:
        given_by(settings.capacity_file)  # each run reads it anew; what can't be right is better said now
    url, fitter = settings.database(), fitter_of(where)
    if url.startswith("sqlite"):
        check(url, must_exist=True)
    if not migrate_when_up(url, settings.database_wait_seconds, stop):
        yield None
        return
    engine = open_engine(url, must_exist=True)
    try:
        registry = Registry(engine, settings.models_folder(), keep=settings.models_keep)
        yield Surroundings(
            engine=engine,
            registry=registry,
            settings=settings,
            clock=SystemClock(),
            mode=Mode(mode),
            fitter=fitter,
            cluster=cluster,
            progress=progress,
            stop=stop,
        )
    finally:
        engine.dispose()
        if cluster is not None:
            cluster.close()


class _Shown:
    """Progress: one line that changes on a terminal; elsewhere a line a stage."""

    def __init__(self) -> None:
        self._line: Working | None = None
        self._held = ExitStack()
        self._stage = ""

    def __enter__(self) -> _Shown:
        return self

    def __exit__(self, *raised: object) -> None:
        self.clear()

    def __call__(self, stage: str, what: str) -> None:
        """Show what is done in a stage; "": between runs."""
        from convoy.brain.batch.stages import STAGES

        names = [name for name, _ in STAGES]
        place = f"[{names.index(stage) + 1}/{len(names)}] " if stage in names else ""
        text = f"{place}{stage}" + (f": {what}" if stage and what else what)
        if sys.stderr.isatty():
            if self._line is None:
                self._line = self._held.enter_context(Working(text))
            self._line(text)
        elif stage and stage != self._stage:
            screen(sys.stderr).print(text)
        self._stage = stage

    def clear(self) -> None:
        """Show nothing any more."""
        self._held.close()
        self._line = None


def _tell(told: Told, *, as_json: bool) -> None:
    """Print how a run went."""
    outcome = told.outcome
    if as_json:
        document = {
            "window": [told.window.begin.isoformat(), told.window.end.isoformat()],
            "ending": outcome.ending.value,
            "message": outcome.message,
            "report": None if told.report is None else str(told.report),
            "run": None if outcome.run is None else plain(outcome.run),
        }
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
        return
    from convoy.brain.batch.summary import errors

    console = screen()
    console.print(f"batch for {told.window.shown}: {outcome.ending.value}: {outcome.message}")
    if outcome.run is not None and outcome.ending.value in ("done", "failed"):
        for one in errors(outcome.run):
            console.print(f"  {one}")
    if told.report is not None:
        console.print(f"report: {told.report}")
    if told.unreported:
        console.print(f"no report: {told.unreported}")
    sys.stdout.flush()


def plain(run: Run) -> dict[str, Any]:
    """Return a run's row as JSON's types."""
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in asdict(run).items()}
