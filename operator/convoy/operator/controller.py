"""Runs the reconcilers: what changes is put into a queue by its job, and the job is looked at and brought further.

One job is handled by one worker at a time. A job whose handling fails comes back later; the others don't notice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime

from convoy.core.api import names
from convoy.core.api.errors import ConvoyError, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.api.resources import Capacity
from convoy.core.cluster.follow import InSync, Pace, Told
from convoy.core.cluster.port import Change, Cluster, Kind
from convoy.core.process import logs
from convoy.core.process.clock import Clock
from convoy.operator import plan
from convoy.operator.actions import CreateObject
from convoy.operator.executor import Executor, Failure
from convoy.operator.job import decide
from convoy.operator.observe import Observed, observe, owner_job
from convoy.operator.pods import Site
from convoy.operator.queue import WorkQueue
from convoy.operator.watches import Follower

JobKey = tuple[str, str]
"""(namespace, name) of a job."""
_FOLLOWED = (Kind.ELASTIC_JOB, Kind.SCALE_PLAN, Kind.POD)
_JOIN_SECONDS = 5.0


class Controller:
    """The reconcilers' threads. ``start`` once, ``stop`` once; pods run on either way."""

    def __init__(
        self,
        cluster: Cluster,
        site: Site,
        clock: Clock,
        *,
        workers: int,
        resync: float,
        watch: float = 1.0,
        namespaces: Sequence[str] = (),
        vetted: Callable[[Observed], Observed] = lambda seen: seen,
        permitted: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; ``workers`` jobs at a time, ``watch`` seconds a watch, all jobs anew each ``resync`` seconds.

        ``namespaces``: those whose jobs are carried out; none: all. ``vetted`` adds what the cluster has to say
        against a job. ``permitted`` raises where this process may do nothing more.
        """
        self._cluster = cluster
        self._site = site
        self._clock = clock
        self._vetted = vetted
        self._executor = Executor(cluster, permitted)
        self._queue: WorkQueue[JobKey] = WorkQueue(clock)
        self._nodes = _Nodes(cluster, clock, resync)
        pace = Pace(watch=watch, resync=resync, first_wait=0.2, longest_wait=10.0)
        self._followers = [
            Follower(cluster, kind, namespace, self._told, clock, pace)
            for namespace in namespaces or (None,)
            for kind in _FOLLOWED
        ]
        self._join_seconds = watch + _JOIN_SECONDS
        self._jobs: set[JobKey] = set()
        self._workers = [
            threading.Thread(target=self._work, name=f"reconcile-{number}", daemon=True) for number in range(workers)
        ]
        self._log = logs.get("operator.controller")

    def start(self) -> None:
        """Start following the cluster and reconciling."""
        for worker in self._workers:
            worker.start()
        for follower in self._followers:
            follower.start()

    def stop(self) -> None:
        """Stop after what is being done now; what isn't done is done by the next operator."""
        for follower in self._followers:
            follower.stop()
        self._queue.close()
        late = [follower for follower in self._followers if not follower.join(self._join_seconds)]
        for worker in self._workers:
            worker.join(_JOIN_SECONDS)
        if late or any(worker.is_alive() for worker in self._workers):
            self._log.warning("some threads did not end in time", seconds=self._join_seconds)

    def reconcile(self, key: JobKey) -> float | None:
        """Look at a job and bring it further; return after how many seconds to look again (None: at a change).

        Raises:
            ConvoyError: an action failed, or the cluster doesn't answer.
        """
        namespace, name = key
        seen, plans = observe(self._cluster, namespace, name, self._nodes.capacity())
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        if seen is not None:
            seen = self._vetted(seen)
        decision = plan.without_job(plans, now) if seen is None else decide(seen, self._site, now)
        for reason in decision.reasons:
            self._log.info(reason.message, job=name, namespace=namespace, reason=reason.reason)
        failure = self._executor.run(decision.actions)
        if failure is not None:
            if seen is not None and _creates_node(failure):
                self._executor.run(plan.blocked(seen, failure.error, now).actions)
            raise failure.error
        return decision.requeue_after

    def _work(self) -> None:
        while (key := self._queue.take()) is not None:
            try:
                again = self.reconcile(key)
            except ConvoyError as error:
                wait = self._queue.retry(key)
                self._tell(key, wait, error.reason, str(error))
            except Exception as error:  # a fault of ours in one job must not stop the others
                wait = self._queue.retry(key)
                self._log.exception(
                    "reconciler failed", job=key[1], namespace=key[0], retry_in=wait, error=repr(error)
                )
            else:
                self._queue.succeeded(key)
                if again is not None:
                    self._queue.add(key, again)
            finally:
                self._queue.done(key)

    def _tell(self, key: JobKey, wait: float, reason: str, message: str) -> None:
        self._log.warning(message, job=key[1], namespace=key[0], reason=reason, retry_in=round(wait, 2))

    def _told(self, told: Told) -> None:
        """Have the job of what changed looked at; after a list all jobs: a pod that vanished unseen names none."""
        match told:
            case Change():
                key = job_key(told.object)
                if key is not None:
                    self._remember(key, told)
                    self._queue.add(key)
            case InSync():
                for key in list(self._jobs):
                    self._queue.add(key)

    def _remember(self, key: JobKey, change: Change) -> None:
        if change.object["kind"] != Kind.ELASTIC_JOB:
            return
        if change.type == "DELETED":
            self._jobs.discard(key)
        else:
            self._jobs.add(key)


class _Nodes:
    """What the nodes have, read now and then."""

    def __init__(self, cluster: Cluster, clock: Clock, seconds: float) -> None:
        self._cluster = cluster
        self._clock = clock
        self._seconds = seconds
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._capacity: Capacity | None = None
        self._said = False

    def capacity(self) -> Capacity | None:
        with self._lock:
            now = self._clock.monotonic()
            if self._read_at is None or now - self._read_at > self._seconds:
                self._read_at = now
                self._capacity = self._read()
            return self._capacity

    def _read(self) -> Capacity | None:
        try:
            nodes: Iterable[Manifest] = self._cluster.list(Kind.NODE).items
        except Unusable as error:  # one who may look into a few namespaces alone may not see the nodes
            if not self._said:
                self._said = True
                logs.get("operator.controller").warning("nodes can't be read", reason=error.reason, why=str(error))
            return None
        return Capacity.from_nodes(nodes)


def job_key(manifest: Manifest) -> JobKey | None:
    """Return the job that a changed object belongs to; None where it belongs to none."""
    metadata = manifest.get("metadata") or {}
    namespace = metadata.get("namespace", "default")
    match manifest.get("kind"):
        case Kind.ELASTIC_JOB:
            name = metadata.get("name", "")
        case Kind.SCALE_PLAN:
            name = owner_job(manifest)
        case _:
            name = (metadata.get("labels") or {}).get(names.LABEL_JOB, "")
    return (namespace, name) if name else None


def _creates_node(failure: Failure) -> bool:
    action = failure.action
    return (
        isinstance(action, CreateObject)
        and action.kind is Kind.POD
        and action.manifest["metadata"]["labels"][names.LABEL_ROLE] != names.MASTER
    )
