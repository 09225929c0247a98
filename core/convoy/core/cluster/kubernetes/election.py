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

from convoy.core.api.errors import ConvoyError, Fenced, InvalidInput, Unusable
from convoy.core.cluster.kubernetes.candidate import Candidate
from convoy.core.cluster.port import Cluster
from convoy.core.process import logs
from convoy.core.process.clock import Clock, SystemClock


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
        self._clock = clock or SystemClock()
        self._candidate = Candidate(
            cluster,
            namespace,
            name,
            identity,
            lease_seconds=lease_seconds,
            renew_seconds=renew_seconds,
            clock=self._clock,
        )
        self._retry_seconds = retry_seconds
        self._ended = threading.Event()
        self._asking = threading.Lock()
        self._failing = False
        self._what = f"{identity}: lease {namespace}/{name}"
        self._log = logs.get("cluster.election").bind(lease=f"{namespace}/{name}", identity=identity)

    @property
    def held(self) -> bool:
        """Whether this one leads, by the clock: who acts looks at it before."""
        return not self._ended.is_set() and self._clock.monotonic() < self._candidate.until

    def check(self) -> None:
        """Do nothing if this one leads.

        Raises:
            Fenced: it doesn't, or no more.
        """
        if not self.held:
            raise Fenced(f"{self._what} isn't held, or no more: another may lead")

    def lead(self, stop: threading.Event) -> bool:
        """Wait until this one leads, and go on renewing; False where ``stop`` was set first. Once for an object.

        Raises:
            Unusable: the first contact was refused, by the cluster's access rules for instance.
        """
        contact = False
        while not stop.is_set():
            try:
                if self._candidate.take() and self.held:
                    self._start()
                    return True
                contact, self._failing = True, False
            except ConvoyError as error:
                if isinstance(error, Unusable | InvalidInput) and not contact:
                    raise
                self._tell("the lease can't be asked for", error)
            stop.wait(self._retry_seconds * random.uniform(0.8, 1.2))
        return False

    def release(self) -> None:
        """Lead no more, and let another lead at once where the cluster can be told. End what needs it before."""
        held = self.held
        self._ended.set()
        # A renewal may be on its way: what is released is the state that it leaves.
        if not held or not self._asking.acquire(timeout=self._retry_seconds):
            return
        try:
            self._candidate.release()
            self._log.info("the lease is released")
        except ConvoyError as error:  # it ends by itself
            self._log.warning("the lease can't be released", reason=error.reason, message=str(error))
        finally:
            self._asking.release()

    def _start(self) -> None:
        self._log.info("this one leads")
        for target in (self._renew, self._guard):
            threading.Thread(target=target, name=f"election-{target.__name__.strip('_')}", daemon=True).start()

    def _renew(self) -> None:
        while not self._ended.wait(self._retry_seconds):
            try:
                with self._asking:
                    if not self._ended.is_set() and not self._candidate.renew():
                        self._lose("another holds the lease, or it was deleted")
                self._failing = False
            except ConvoyError as error:
                self._tell("the lease can't be renewed", error)

    def _guard(self) -> None:
        """See to it that a loss is told in time, whatever request is waited for."""
        while (left := self._candidate.until - self._clock.monotonic()) > 0:
            if self._ended.wait(left):
                return
        self._lose("it wasn't renewed in time")

    def _lose(self, why: str) -> None:
        if not self._ended.is_set():
            self._ended.set()
            self.lost.set()
            self._log.warning("this one leads no more", why=why)

    def _tell(self, what: str, error: ConvoyError) -> None:
        """Log an outage, aloud when it begins."""
        log = self._log.debug if self._failing else self._log.warning
        log(what, reason=error.reason, message=str(error))
        self._failing = True
