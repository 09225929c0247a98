"""One run of the batch: stage after stage, each marked as finished in the run's row when it is.

Whoever runs it holds the batch's lock, and the row names it. A run that was broken off, by a kill, a stop, the
deadline or a fault, is gone on with after the last stage that was finished by the next who runs the same window; a
database that goes away is waited for within the deadline, and the run is then gone on with in the same way.
"""

from __future__ import annotations

import os
import secrets
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial

from sqlalchemy.engine import Connection

from convoy.brain.batch.alarm import alarm
from convoy.brain.batch.stages import STAGES
from convoy.brain.batch.summary import sentence
from convoy.brain.batch.window import Window
from convoy.brain.batch.work import Result, Stopped, Surroundings, TimeUp, Work, told, trace
from convoy.brain.store import runs
from convoy.brain.store.engine import reading
from convoy.brain.store.locks import sole
from convoy.brain.store.runs import Run, State
from convoy.brain.store.turns import in_turns
from convoy.core.api.errors import ConvoyError, Fenced, Unavailable
from convoy.core.process import logs
from convoy.core.process.crashpoint import crash_point

log = logs.get("brain.batch")

LOCK = "batch"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0


class Ending(StrEnum):
    """How it went."""

    DONE = "done"
    ALREADY = "already done"
    BUSY = "busy"
    """Another process is at it; nothing was done here."""
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run went.

    Attributes:
        run: its row as this process saw it last; None: it never saw it.
        message: a sentence.
    """

    ending: Ending
    message: str
    run: Run | None


def run_window(around: Surroundings, window: Window, seconds: float) -> Outcome:
    """Run the batch for a window, or go on with it.

    Args:
        around: what it works with.
        window: that it is for.
        seconds: after which it is broken off.
    """
    owner = f"{socket.gethostname()[:200]}:{os.getpid()}:{secrets.token_hex(4)}"
    attempts = _Attempts(around, window, owner, seconds)
    try:
        with alarm(seconds):
            outcome = attempts.until_over()
    except TimeUp:
        outcome = attempts.time_up()
    except Stopped:
        outcome = Outcome(Ending.STOPPED, f"stopped {attempts.place}; run it again to go on from there", attempts.run)
    except ConvoyError as error:
        outcome = Outcome(Ending.FAILED, told(error), attempts.run)
    log.info("batch", window=window.shown, mode=around.mode.value, ending=outcome.ending.value, why=outcome.message)
    return outcome


class _Attempts:
    """A process' attempts at a window's run: one, and more after the database was away."""

    def __init__(self, around: Surroundings, window: Window, owner: str, seconds: float) -> None:
        self.run: Run | None = None
        self._around = around
        self._window = window
        self._owner = owner
        self._seconds = seconds
        self._until = around.clock.monotonic() + seconds
        self._deadline = self._now() + timedelta(seconds=seconds)
        self._stage = ""

    @property
    def place(self) -> str:
        """Return where it is, in words."""
        finished = self.run.stage if self.run is not None else ""
        after = f"; the last stage that was finished is {finished}" if finished else "; no stage was finished"
        return f"in stage {self._stage}{after}" if self._stage else "before the first stage"

    def until_over(self) -> Outcome:
        """Try, as often as the database goes away, until the run is over.

        Raises:
            Stopped, TimeUp: it may not go on.
            ConvoyError: the database can't be used.
        """
        pause = _FIRST_PAUSE
        while True:
            try:
                return self._once()
            except Fenced as error:
                return Outcome(Ending.BUSY, str(error), self.run)
            except Unavailable as error:
                if error.reason == "LockHeld":
                    return Outcome(
                        Ending.BUSY, f"another batch is at work; nothing was done here ({error})", self.run
                    )
                log.warning("the batch waits", reason=error.reason, why=str(error))
                self._around.progress(self._stage or "begin", f"waiting: {error}")
            if self._around.stop.wait(pause):
                raise Stopped
            if self._around.clock.monotonic() >= self._until:
                raise TimeUp
            pause = min(2 * pause, _LONGEST_PAUSE)

    def time_up(self) -> Outcome:
        """Write down that the deadline passed, if the run is still this process'."""
        message = f"the deadline of {self._seconds:g} s passed {self.place}; run it again to go on from there"
        self._around.engine.dispose()  # what was broken off may have left connections half-way
        return self._failed(message)

    def _once(self) -> Outcome:
        around = self._around
        with sole(around.engine, LOCK):
            self.run = in_turns(
                around.engine,
                lambda connection: runs.take(
                    connection,
                    window=(self._window.begin, self._window.end),
                    mode=around.mode.value,
                    engine=around.fitter.where,
                    owner=self._owner,
                    now=self._now(),
                    deadline_at=self._deadline,
                ),
            )
            if self.run.state is State.DONE:
                return Outcome(Ending.ALREADY, f"it was done {_when(self.run)}: {self.run.message}", self.run)
            crash_point("batch.begun")
            try:
                return self._stages(Work(around, self.run, self._until))
            except (Unavailable, Fenced):
                raise
            except Exception as error:
                log.error("a stage of the batch failed", stage=self._stage, why=told(error), exc_info=trace(error))
                return self._failed(f"stage {self._stage} failed: {told(error)}")

    def _stages(self, work: Work) -> Outcome:
        names = [name for name, _ in STAGES]
        finished = names.index(work.run.stage) + 1 if work.run.stage in names else 0
        for name, stage in STAGES[finished:]:
            work.check()
            self._stage = name
            self._around.progress(name, "")
            result = stage(work)
            crash_point(f"batch.{name}.before-commit")
            self.run = work.run = in_turns(
                self._around.engine, partial(_finish, run=work.run, stage=name, result=result)
            )
            crash_point(f"batch.{name}.after-commit")
        ended = in_turns(
            self._around.engine,
            lambda connection: runs.end(connection, work.run, State.DONE, sentence(work.run), self._now()),
        )
        self.run = ended
        crash_point("batch.ended")
        return Outcome(Ending.DONE, ended.message, ended)

    def _failed(self, message: str) -> Outcome:
        if self.run is None:
            return Outcome(Ending.FAILED, message, None)
        run = self.run
        try:
            self.run = in_turns(
                self._around.engine, lambda connection: runs.end(connection, run, State.FAILED, message, self._now())
            )
        except Fenced as error:
            return Outcome(Ending.BUSY, str(error), run)
        except ConvoyError as error:
            message = f"{message}; and that couldn't be written down: {error}"
        return Outcome(Ending.FAILED, message, self.run)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._around.clock.now(), UTC)


def _finish(connection: Connection, *, run: Run, stage: str, result: Result) -> Run:
    """Mark a stage as finished, and write what it came to; the mark first: it says whether the run is still ours."""
    finished = runs.finish_stage(connection, run, stage, result.document, **result.counts)
    result.write(connection)
    return finished


def last_run(around: Surroundings, window: Window) -> Run | None:
    """Return a window's run as its row has it now, None where there is none."""
    with reading(around.engine) as connection:
        return runs.of_window(connection, (window.begin, window.end), around.mode.value)


def _when(run: Run) -> str:
    return "before" if run.ended_at is None else f"at {run.ended_at:%Y-%m-%d %H:%M} UTC"
