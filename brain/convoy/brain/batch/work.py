"""What the stages of a run work with, and what each of them hands back."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

from sqlalchemy.engine import Connection, Engine

from convoy.brain.batch.engines import Fitter
from convoy.brain.batch.fit import Order
from convoy.brain.settings import BrainSettings
from convoy.brain.store.model_files import Registry
from convoy.brain.store.runs import Run
from convoy.core.api.errors import ConvoyError
from convoy.core.cluster.port import Cluster
from convoy.core.process.clock import Clock

Document = dict[str, Any]
"""What a stage came to, as JSON's types: it stands in the run's row and in its report."""


class Mode(StrEnum):
    """What becomes of the plans."""

    ADVISE = "advise"
    """A person accepts or refuses each."""
    APPLY = "apply"
    """Those for jobs that leave their size to the Brain are carried out."""


class Interrupted(BaseException):
    """Ends a run from within a stage. Not an Exception: what answers for the failure of one model lets it pass."""


class Stopped(Interrupted):
    """The process was told to stop."""


class TimeUp(Interrupted):
    """The run's deadline passed."""


class Progress(Protocol):
    """Is told how far a run is."""

    def __call__(self, stage: str, what: str) -> None:
        """Take in what is being done in a stage."""
        ...


@dataclass(frozen=True)
class AsOf:
    """A clock that stands at a moment, but measures how long something takes."""

    moment: datetime
    clock: Clock

    def now(self) -> float:
        """Return the moment, seconds since the epoch."""
        return self.moment.timestamp()

    def monotonic(self) -> float:
        """Return seconds that never step back."""
        return self.clock.monotonic()


@dataclass(frozen=True)
class Surroundings:
    """What all runs of a process share.

    Attributes:
        engine: of the store.
        fitter: fits models, here or elsewhere.
        cluster: that can be written to; None: there is none.
        stop: is set when the process is to stop.
    """

    engine: Engine
    registry: Registry
    settings: BrainSettings
    clock: Clock
    mode: Mode
    fitter: Fitter
    cluster: Cluster | None
    progress: Progress
    stop: threading.Event


@dataclass
class Work:
    """One process at one run.

    Attributes:
        run: as it stands in its row.
        until: monotonic moment of the deadline.
        orders: what is to be fitted, read by an earlier stage of this process; read anew where it isn't here.
    """

    around: Surroundings
    run: Run
    until: float
    orders: dict[str, Order] = field(default_factory=dict)

    @property
    def now(self) -> datetime:
        """Return the moment that counts for all of the run: its beginning, however often it is gone on with."""
        return self.run.began_at

    @property
    def clock(self) -> Clock:
        """Return a clock that stands at that moment."""
        return AsOf(self.run.began_at, self.around.clock)

    def check(self) -> None:
        """Return if the run may go on.

        Raises:
            Stopped, TimeUp: it may not.
        """
        if self.around.stop.is_set():
            raise Stopped
        if self.around.clock.monotonic() >= self.until:
            raise TimeUp


def nothing(_connection: Connection) -> None:
    """Write nothing."""


@dataclass(frozen=True)
class Result:
    """What a stage came to.

    Attributes:
        document: of it.
        write: is done in the transaction that marks the stage as finished; it must bear being repeated.
        counts: of the row: ``jobs``, ``recommendations``, ``plans``.
    """

    document: Document
    write: Callable[[Connection], None] = nothing
    counts: dict[str, int] = field(default_factory=dict)


def trace(error: BaseException) -> BaseException | None:
    """Return an error where a log has to show its trace: not where it is one of ours, which says what is wrong."""
    return None if isinstance(error, ConvoyError) else error


def told(error: BaseException) -> str:
    """Return an error in words."""
    reason = getattr(error, "reason", type(error).__name__)
    return f"[{reason}] {error}"
