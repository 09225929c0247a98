"""Following the objects of a kind in a thread, for as long as the operator runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from convoy.core.api.errors import ConvoyError
from convoy.core.cluster.follow import Pace, Told, follow
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import logs
from convoy.core.process.clock import Clock

_AFTER_ERROR_SECONDS = 10.0


class Follower:
    """A thread that calls ``on_told`` with all that ``follow`` tells of a kind in a namespace, or in all (None).

    Whoever is called reads the object anew; what a change said is only a hint (level, not edge).
    """

    def __init__(
        self,
        cluster: Cluster,
        kind: Kind,
        namespace: str | None,
        on_told: Callable[[Told], None],
        clock: Clock,
        pace: Pace,
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._namespace = namespace
        self._on_told = on_told
        self._clock = clock
        self._pace = pace
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"follow-{kind}-{namespace}", daemon=True)
        self._log = logs.get("operator.watches")

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end."""
        self._stop.set()

    def join(self, timeout: float) -> bool:
        """Wait for its end; False where it didn't come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        """Follow; where the first contact is refused, or we have a fault, begin anew after a while."""
        while not self._stop.is_set():
            try:
                for told in self._followed():
                    self._on_told(told)
            except ConvoyError as error:
                self._log.warning("can't follow", kind=str(self._kind), reason=error.reason, message=str(error))
                self._stop.wait(_AFTER_ERROR_SECONDS)
            except Exception:
                self._log.exception("can't follow", kind=str(self._kind))
                self._stop.wait(_AFTER_ERROR_SECONDS)

    def _followed(self) -> Iterator[Told]:
        return follow(self._cluster, self._kind, self._namespace, stop=self._stop, pace=self._pace, clock=self._clock)
