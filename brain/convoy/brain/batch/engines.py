"""Where models are fitted: in this process, or on an existing Dask cluster. The same orders give the same models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from convoy.brain.batch.fit import Order, make
from convoy.brain.batch.recipes import Progress
from convoy.brain.models.registry import ModelFile
from convoy.core.api.errors import InvalidInput
from convoy.core.process.clock import Clock, SystemClock

LOCAL = "local"
_DASK = "dask://"


@dataclass(frozen=True)
class Made:
    """What became of an order: the model's file, or why there is none."""

    name: str
    file: ModelFile | None
    error: Exception | None = None


class Fitter(Protocol):
    """Fits models."""

    @property
    def where(self) -> str:
        """Return where, as it was given."""
        ...

    def make(self, orders: Sequence[Order], progress: Progress) -> Iterator[Made]:
        """Yield what becomes of each order as it is there, in any order. The failure of one doesn't stop others.

        Raises:
            Unavailable: where they are fitted can't be reached.
        """
        ...


class Local:
    """Fits models in this process, one after the other."""

    where = LOCAL

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def make(self, orders: Sequence[Order], progress: Progress) -> Iterator[Made]:
        """Yield what becomes of each order."""
        for order in orders:
            try:
                yield Made(order.name, make(order, self._clock, partial(_of, order.name, progress)))
            except Exception as error:
                yield Made(order.name, None, error)


def _of(name: str, progress: Progress, step: str) -> None:
    progress(f"{name}: {step}")


def fitter_of(where: str) -> Fitter:
    """Return what fits models there.

    Raises:
        InvalidInput: it names no such place.
        Unusable: Dask isn't installed, or runs another version of Convoy there.
        Unavailable: the Dask cluster can't be reached, or has no workers.
    """
    if where == LOCAL:
        return Local()
    if where.startswith(_DASK) and len(where) > len(_DASK):
        from convoy.brain.batch.on_dask import OnDask

        return OnDask(where.removeprefix(_DASK))
    raise InvalidInput(
        f"engine {where!r}: expected local, or dask://HOST:PORT of a scheduler", reason="EngineUnknown"
    )
