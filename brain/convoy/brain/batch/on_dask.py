"""Fitting spread over an existing Dask cluster, an order a task.

Frames and functions travel as Dask sends them, pickled: scheduler and workers have to be as trusted as the database.
Models don't: a champion goes out, and a fitted model comes back, as the bytes of its file. The workers run the same
version of Convoy; with BLAS held to one thread here and there, which is Dask's default for workers, the models are
the same bit for bit.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pandas as pd

from convoy.brain.batch.engines import Made
from convoy.brain.batch.fit import Order, make
from convoy.brain.batch.recipes import Progress
from convoy.brain.models.registry import ModelFile
from convoy.brain.models.registry.codec import decode, encode
from convoy.brain.models.registry.kinds import kind_of
from convoy.brain.store.model_files import Loaded, Version
from convoy.core.api.envelope import VERSION
from convoy.core.api.errors import Unavailable, Unusable
from convoy.core.process.clock import SystemClock

if TYPE_CHECKING:
    from distributed import Client, Future

_CONNECT_SECONDS = 10
_WORKERS_SECONDS = 30
_LOOK_SECONDS = 0.1
_LOST_SECONDS = 30.0
"""A scheduler that is silent for so long doesn't come back."""
Sent = tuple[bytes, Version] | None
"""A champion on its way: its file, and which version it is."""


class OnDask:
    """Fits models on the Dask cluster of a scheduler, ``HOST:PORT``."""

    def __init__(self, address: str) -> None:
        try:
            import distributed  # noqa: F401
        except ModuleNotFoundError as error:
            raise Unusable(
                f"engine dask://{address}: {error.name} isn't installed; pip install 'convoy-train[dask]'",
                reason="DaskMissing",
            ) from None
        self._address = address

    @property
    def where(self) -> str:
        """Return where, as it was given."""
        return f"dask://{self._address}"

    def make(self, orders: Sequence[Order], progress: Progress) -> Iterator[Made]:
        """Yield what becomes of each order as it is there.

        Raises:
            Unavailable: the scheduler can't be reached, or has no workers.
            Unusable: a worker hasn't this version of Convoy.
        """
        if not orders:
            return
        client = self._connected()
        try:
            workers = self._workers(client)
            futures = {self._submitted(client, order): order.name for order in orders}
            for future in self._finished(client, list(futures), workers, progress):
                yield _made(futures[future], future)
        finally:
            client.close()  # what isn't finished is cancelled with it

    def _connected(self) -> Client:
        from distributed import Client

        try:
            return Client(f"tcp://{self._address}", timeout=_CONNECT_SECONDS, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise Unavailable(
                f"{self.where}: no scheduler answers within {_CONNECT_SECONDS} s ({error}); start one with "
                "`dask scheduler`, or leave --engine out to fit here",
                reason="SchedulerUnreachable",
            ) from None

    def _workers(self, client: Client) -> int:
        """Return how many workers there are, all of our version.

        Raises:
            Unavailable: there are none.
            Unusable: one has another version.
        """
        try:
            client.wait_for_workers(1, timeout=_WORKERS_SECONDS)
        except TimeoutError:
            raise Unavailable(
                f"{self.where}: its scheduler has had no worker for {_WORKERS_SECONDS} s; start some with "
                "`dask worker`",
                reason="NoWorkers",
            ) from None
        found: dict[str, Any] = client.run(version, on_error="return")
        for worker, theirs in found.items():
            if theirs != VERSION:
                raise Unusable(
                    f"{self.where}: worker {worker} has Convoy {theirs}, not {VERSION}; install the same there",
                    reason="OtherVersion",
                )
        return len(found)

    def _submitted(self, client: Client, order: Order) -> Future[Any]:
        frame = client.scatter(order.frame, hash=False)
        champion = order.champion
        sent: Sent = None
        if champion is not None:
            sent = encode(ModelFile(champion.facts, champion.model.state())), champion.version
        return client.submit(make_elsewhere, order.name, frame, order.at, sent, pure=False, retries=1)

    def _finished(
        self, client: Client, futures: list[Future[Any]], workers: int, progress: Progress
    ) -> Iterator[Future[Any]]:
        """Yield futures as they are over.

        Raises:
            Unavailable: the scheduler went away.
        """
        total, heard = len(futures), time.monotonic()
        while futures:
            progress(f"{total - len(futures)} of {total} models done by {workers} workers")
            over = [future for future in futures if future.done()]
            for future in over:
                futures.remove(future)
                yield future
            if client.status == "running":
                heard = time.monotonic()
            elif time.monotonic() - heard > _LOST_SECONDS:
                raise self._gone()
            if futures and not over:
                time.sleep(_LOOK_SECONDS)

    def _gone(self) -> Unavailable:
        return Unavailable(f"{self.where}: its scheduler went away", reason="SchedulerUnreachable")


def version() -> str:
    """Return the version of Convoy that a worker has."""
    return VERSION


def make_elsewhere(name: str, frame: pd.DataFrame, at: datetime, sent: Sent) -> bytes:
    """Fit a model on a worker; return its file's bytes."""
    champion = None
    if sent is not None:
        file = decode(sent[0], name=name)
        champion = Loaded[Any](kind_of(name).model().restored(file.state), sent[1], file.facts, ())
    return encode(make(Order(name, frame, champion, at), SystemClock()))


def _made(name: str, future: Future[Any]) -> Made:
    """Return what became of an order.

    Raises:
        Unavailable: it was lost with the scheduler.
    """
    if future.status in ("cancelled", "lost"):
        raise Unavailable(f"model {name}: Dask lost its task; its scheduler went away", reason="SchedulerUnreachable")
    error = future.exception()
    if error is None:
        return Made(name, decode(future.result(), name=name))
    return Made(name, None, error if isinstance(error, Exception) else RuntimeError(str(error)))
