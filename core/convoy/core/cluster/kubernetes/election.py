"""Leader election by a Lease: of several processes one leads, and never two at once.

    election = Election(cluster, namespace, "convoy-operator", identity())
    if election.lead(stop):          # blocks until this one leads, or is to stop
        ...                          # work until stop, or until election.lost is set
        election.release()           # the next one needn't wait for the Lease to end

The leader stops ``renew_seconds`` after it *began* its last renewal; others take the Lease ``lease_seconds`` after
they *saw* it. So they never overlap, whatever clocks say, the network does, or a process sleeps through, provided
that who acts looks at ``held`` before: a process that was frozen finds out by its clock, not by being told. What was
sent before a freeze may still arrive after it: writes that matter carry a resourceVersion or an epoch besides.

The election of the package ``kubernetes`` (37) wasn't taken: it neither stops nor releases, tells a lost Lease only
when its last request has ended, and ends by an exception where a connection is refused.
"""

from __future__ import annotations

import random
import socket
import threading
import uuid
from datetime import UTC, datetime

from convoy.core.api.errors import AlreadyExists, Conflict, ConvoyError, Fenced, InvalidInput, NotFound, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.api.moments import timestamp
from convoy.core.cluster.kubernetes.lease import Lease, Sight, released, taken
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import logs
from convoy.core.process.clock import Clock, SystemClock

_MANAGER = "convoy-election"


def identity() -> str:
    """Return a name for this process that no other has: a restarted one is another candidate."""
    return f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"


class Election:
    """One candidate's part in it, for one leadership. Its methods may be called from several threads.

    Args:
        cluster: where the Lease lies; may get, create and patch leases of the namespace.
        namespace: the Lease's.
        name: the Lease's.
        identity: the candidate's; no other's.
        lease_seconds: how long others let a Lease be that isn't renewed; whole seconds are written.
        renew_seconds: how long a leader leads without a renewal.
        retry_seconds: between two attempts, and two renewals.
        clock: for both counts.

    Attributes:
        lost: set when this one led and leads no more, ``renew_seconds`` after the last renewal began at the latest.

    Raises:
        InvalidInput: not 0 < retry_seconds < renew_seconds < lease_seconds.
    """

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_seconds: float = 15.0,
        renew_seconds: float = 10.0,
        retry_seconds: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        if not 0 < retry_seconds < renew_seconds < lease_seconds:
            raise InvalidInput(
                "expected 0 < retry_seconds < renew_seconds < lease_seconds, not"
                f" {retry_seconds:g}, {renew_seconds:g}, {lease_seconds:g}"
            )
        self.lost = threading.Event()
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._lease_seconds = lease_seconds
        self._renew_seconds = renew_seconds
        self._retry_seconds = retry_seconds
        self._clock = clock or SystemClock()
        self._sight = Sight(identity, lease_seconds)
        self._lease: Lease | None = None
        self._until: float | None = None
        self._changed = threading.Condition()
        self._renewing = threading.Lock()
        self._ended = threading.Event()
        self._log = logs.get("cluster.election").bind(lease=f"{namespace}/{name}", identity=identity)

    @property
    def held(self) -> bool:
        """Whether this one leads, by the clock: who acts looks at it each time."""
        with self._changed:
            return self._until is not None and not self.lost.is_set() and self._clock.monotonic() < self._until

    def check(self) -> None:
        """Do nothing if this one leads.

        Raises:
            Fenced: it doesn't, or no more.
        """
        if not self.held:
            raise Fenced(f"{self._identity} doesn't hold the lease {self._namespace}/{self._name}: another may lead")

    def lead(self, stop: threading.Event) -> bool:
        """Wait until this one leads, and go on renewing; False where ``stop`` was set first. Once for an object.

        Raises:
            Unusable: the first contact was refused, by the cluster's access rules for instance.
        """
        contact = False
        while not stop.is_set():
            try:
                if self._try():
                    self._start()
                    return True
                contact = True
            except ConvoyError as error:
                if isinstance(error, Unusable | InvalidInput) and not contact:
                    raise
                self._log.warning("the lease can't be asked for", reason=error.reason, message=str(error))
            stop.wait(self._retry_seconds * random.uniform(0.8, 1.2))
        return False

    def release(self) -> None:
        """Lead no more, and let another lead at once where the cluster can be told. End what needs it before."""
        with self._changed:
            held, self._until = self.held, None
            self._ended.set()
            self._changed.notify_all()
        # A renewal may be on its way: what is released is the state that it leaves.
        waited = held and self._renewing.acquire(timeout=self._retry_seconds)
        try:
            if waited and self._lease is not None:
                now = released(self._name, self._namespace, self._moment(), self._lease)
                self._cluster.apply(now, field_manager=_MANAGER, force=True)
                self._log.info("the lease is released")
        except ConvoyError as error:  # it ends by itself
            self._log.warning("the lease can't be released", reason=error.reason, message=str(error))
        finally:
            if waited:
                self._renewing.release()

    def _try(self) -> bool:
        """Take the Lease if it is free."""
        found = self._read()
        now = self._clock.monotonic()
        self._sight.look(found, now)
        return self._sight.may_take(now) and self._write(found) and self.held

    def _read(self) -> Lease | None:
        try:
            return Lease.of(self._cluster.get(Kind.LEASE, self._namespace, self._name))
        except NotFound:
            return None

    def _write(self, before: Lease | None) -> bool:
        """Write the Lease as held by this one over the state ``before``; False where it isn't so any more."""
        began = self._clock.monotonic()
        wanted = taken(self._name, self._namespace, self._identity, self._lease_seconds, self._moment(), before)
        try:
            made = self._put(wanted, new=before is None)
        except (AlreadyExists, Conflict):
            return False
        with self._changed:
            self._lease = Lease.of(made)
            if not self._ended.is_set():  # else the answer came too late
                self._until = began + self._renew_seconds
                self._changed.notify_all()
        return True

    def _put(self, wanted: Manifest, *, new: bool) -> Manifest:
        if new:
            return self._cluster.create(wanted, field_manager=_MANAGER)
        return self._cluster.apply(wanted, field_manager=_MANAGER, force=True)

    def _start(self) -> None:
        self._log.info("this one leads")
        for target in (self._renew, self._guard):
            threading.Thread(target=target, name=f"election-{target.__name__.strip('_')}", daemon=True).start()

    def _renew(self) -> None:
        while not self._ended.wait(self._retry_seconds):
            try:
                with self._renewing:
                    if not (self._write(self._lease) or self._still_ours()):
                        self._lose("another holds the lease, or it was deleted")
            except ConvoyError as error:
                self._log.warning("the lease can't be renewed", reason=error.reason, message=str(error))

    def _still_ours(self) -> bool:
        """Renew over what was written meanwhile, unless it was another candidate who wrote."""
        found = self._read()
        return found is not None and found.holder == self._identity and self._write(found)

    def _guard(self) -> None:
        """See to it that a loss is told in time, whatever request is waited for."""
        with self._changed:
            while self._until is not None and not self._ended.is_set():
                left = self._until - self._clock.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
        self._lose(f"it wasn't renewed for {self._renew_seconds:g} s")

    def _lose(self, why: str) -> None:
        with self._changed:
            if self._ended.is_set():
                return
            self._ended.set()
            self.lost.set()
            self._changed.notify_all()
        self._log.warning("this one leads no more", why=why)

    @staticmethod
    def _moment() -> str:
        return timestamp(datetime.now(UTC))
