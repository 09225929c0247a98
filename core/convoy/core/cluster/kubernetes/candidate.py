"""One candidate's reads and writes of a Lease, by the cluster port's compare-and-swap."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from convoy.core.api.errors import AlreadyExists, Conflict, NotFound
from convoy.core.api.moments import timestamp
from convoy.core.cluster.kubernetes.lease import Lease, Sight, released, taken
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process.clock import Clock

_MANAGER = "convoy-election"


class Candidate:
    """Takes, renews and releases a Lease; one thread at a time.

    It raises what the cluster port raises, but for conflicts, which are the answer False. Where an answer was lost,
    the next call finds out what was done.

    Attributes:
        until: up to when this one holds the Lease, by its own clock, whatever happens to the Lease: ``renew_seconds``
            from the beginning of the last write that succeeded.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_seconds: float,
        renew_seconds: float,
        clock: Clock,
    ) -> None:
        self.until = -math.inf
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._clock = clock
        self._sight = Sight(identity, lease_seconds)
        self._lease: Lease | None = None

    def take(self) -> bool:
        """Take the Lease if it is free; whether it did."""
        found = self._read()
        now = self._clock.monotonic()
        self._sight.look(found, now)
        return self._sight.may_take(now) and self._write(found)

    def renew(self) -> bool:
        """Renew the Lease that this one took; False where another took it, or it was deleted."""
        if self._lease is not None and self._write(self._lease):
            return True
        found = self._read()  # somebody else wrote, or we did without hearing of it
        return found is not None and found.holder == self._identity and self._write(found)

    def release(self) -> None:
        """Leave the Lease that this one took to whoever wants it, at once."""
        self.until = -math.inf
        if self._lease is not None:
            now = released(self._name, self._namespace, _moment(), self._lease)
            self._cluster.apply(now, field_manager=_MANAGER, force=True)

    def _read(self) -> Lease | None:
        try:
            return Lease.of(self._cluster.get(Kind.LEASE, self._namespace, self._name))
        except NotFound:
            return None

    def _write(self, before: Lease | None) -> bool:
        """Write the Lease as held by this one over the state ``before``; False where it isn't so any more."""
        began = self._clock.monotonic()
        wanted = taken(self._name, self._namespace, self._identity, self._lease_seconds, _moment(), before)
        try:
            if before is None:
                made = self._cluster.create(wanted, field_manager=_MANAGER)
            else:
                made = self._cluster.apply(wanted, field_manager=_MANAGER, force=True)
        except (AlreadyExists, Conflict):
            return False
        self._lease = Lease.of(made)
        self.until = began + self._renew_seconds
        return True


def _moment() -> str:
    return timestamp(datetime.now(UTC))
