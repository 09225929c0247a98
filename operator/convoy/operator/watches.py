"""Following the objects of a kind: list, then watch, and list again when the watch has ended or came too late."""

from __future__ import annotations

import threading
from collections.abc import Callable

from convoy.core.api.errors import ConvoyError, Expired
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import logs
from convoy.core.process.clock import Clock

_WATCH_SECONDS = 1.0
"""How long one watch lasts, and so how long a stop may take."""
_FIRST_WAIT_SECONDS = 0.2
_LONGEST_WAIT_SECONDS = 10.0


class Follower:
    """A thread that calls ``on_object`` with each object of a kind that changes, and with all of them now and then.

    Whoever is called reads the object anew; what a change said is only a hint (level, not edge).
    """

    def __init__(
        self, cluster: Cluster, kind: Kind, on_object: Callable[[Manifest], None], clock: Clock, resync: float
    ) -> None:
        self._cluster = cluster
        self._kind = kind
        self._on_object = on_object
        self._clock = clock
        self._resync = resync
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"follow-{kind}", daemon=True)
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
        wait = _FIRST_WAIT_SECONDS
        while not self._stop.is_set():
            try:
                self._follow()
                wait = _FIRST_WAIT_SECONDS
            except Expired:
                continue
            except ConvoyError as error:
                self._log.warning("watch failed", kind=str(self._kind), reason=error.reason, message=str(error))
            except Exception:
                self._log.exception("watch failed", kind=str(self._kind))
            else:
                continue
            self._stop.wait(wait)
            wait = min(2 * wait, _LONGEST_WAIT_SECONDS)

    def _follow(self) -> None:
        """List, then watch until the next list is due."""
        listing = self._cluster.list(self._kind)
        until = self._clock.monotonic() + self._resync
        for item in listing.items:
            self._on_object(item)
        since = listing.resource_version
        while not self._stop.is_set() and (left := until - self._clock.monotonic()) > 0:
            for change in self._cluster.watch(self._kind, since, timeout=min(left, _WATCH_SECONDS)):
                since = change.object["metadata"]["resourceVersion"]
                self._on_object(change.object)
                if self._stop.is_set():
                    return
