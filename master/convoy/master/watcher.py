"""What happens in the cluster, as events: the job's pods, its ElasticJob, its ScalePlans.

Each kind is listed, then watched from there in a thread of its own; when the changes since are no longer kept, it is
listed again.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from convoy.core.api import names
from convoy.core.api.errors import Expired, InvalidManifest
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest, controller_uid
from convoy.core.api.plan import Explanation, PlanPhase, ScalePlan
from convoy.core.api.pod import Pod
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import logs
from convoy.master.decide.events import Event, ManualPlanObserved, PlanObserved, PodGone, PodObserved, PodsListed
from convoy.master.decide.state import Cause

log = logs.get("master.watcher")

_WATCH_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_POST_SECONDS = 60.0

Read = Callable[[Manifest], ElasticJob]
Post = Callable[[Event], Coroutine[Any, Any, Any]]
OnJob = Callable[[ElasticJob | None], Coroutine[Any, Any, Any]]


class Watcher:
    """Watches one job.

    ``read`` makes an ElasticJob of its manifest, ``post`` takes events, ``on_job`` the ElasticJob at each change, or
    None when it is gone.
    """

    def __init__(
        self, cluster: Cluster, namespace: str, job: str, uid: str, read: Read, post: Post, on_job: OnJob
    ) -> None:
        self.manual: dict[str, ManualPlanObserved] = {}
        self._cluster = cluster
        self._namespace = namespace
        self._job = job
        self._uid = uid
        self._read = read
        self._post = post
        self._on_job = on_job
        self._loop = asyncio.get_running_loop()
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []

    async def start(self) -> None:
        """Hand in what is there now, plans before pods, and watch from there.

        Raises:
            ClusterError: it can't be listed.
        """
        for kind in (Kind.ELASTIC_JOB, Kind.SCALE_PLAN, Kind.POD):
            since = await asyncio.to_thread(self._list, kind)
            for observation in since[1]:
                await observation
            run, work = contextvars.copy_context().run, (self._watch, kind, since[0])  # what logs carry comes along
            thread = threading.Thread(target=run, args=work, name=f"watch-{kind}", daemon=True)
            self._threads.append(thread)
        for thread in self._threads:
            thread.start()

    async def stop(self, wait: float) -> None:
        """End the threads, waiting so many seconds for them."""
        self._stop.set()
        end = asyncio.get_running_loop().time() + wait
        while any(thread.is_alive() for thread in self._threads) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(0.02)

    def _list(self, kind: Kind) -> tuple[str, list[Coroutine[Any, Any, Any]]]:
        labels = None if kind in (Kind.ELASTIC_JOB, Kind.SCALE_PLAN) else {names.LABEL_JOB: self._job}
        listing = self._cluster.list(kind, self._namespace, labels)
        if kind is Kind.POD:
            pods = tuple(Pod.from_manifest(item) for item in listing.items if self._is_node(item))
            return listing.resource_version, [self._post(PodsListed(pods))]
        if kind is Kind.ELASTIC_JOB:
            mine = next((item for item in listing.items if self._is_mine(item)), None)
            return listing.resource_version, [self._on_job(self._job_of(mine))]
        events = [event for item in listing.items if (event := self._plan_event(item)) is not None]
        return listing.resource_version, [self._post(event) for event in events]

    def _watch(self, kind: Kind, since: str) -> None:
        while not self._stop.is_set():
            try:
                for change in self._cluster.watch(kind, since, self._namespace, timeout=_WATCH_SECONDS):
                    if self._stop.is_set():
                        return
                    since = change.object["metadata"]["resourceVersion"]
                    self._hand_in(self._work(kind, change.type == "DELETED", change.object))
            except Expired:
                since = self._relist(kind)
            except InvalidManifest as error:
                log.warning("what was observed can't be read; waiting for a change", kind=str(kind), why=str(error))
            except Exception as error:  # what was observed wasn't taken in: it is looked at anew
                log.warning("watch ended; listing again", kind=str(kind), why=f"{type(error).__name__}: {error}")
                self._stop.wait(_RETRY_SECONDS)
                since = self._relist(kind)

    def _relist(self, kind: Kind) -> str:
        """List until what is there was taken in; return from where to watch."""
        while not self._stop.is_set():
            try:
                since, works = self._list(kind)
                for work in works:
                    self._hand_in(work)
            except Exception as error:
                log.warning("list failed; trying again", kind=str(kind), why=f"{type(error).__name__}: {error}")
                self._stop.wait(_RETRY_SECONDS)
            else:
                return since
        return ""

    def _work(self, kind: Kind, deleted: bool, item: Manifest) -> Coroutine[Any, Any, Any] | None:
        match kind:
            case Kind.POD:
                if self._is_node(item):
                    pod = Pod.from_manifest(item)
                    return self._post(PodGone(pod) if deleted else PodObserved(pod))
            case Kind.ELASTIC_JOB:
                if self._is_mine(item):
                    return self._on_job(None if deleted else self._job_of(item))
            case Kind.SCALE_PLAN if not deleted:
                event = self._plan_event(item)
                return None if event is None else self._post(event)
            case Kind.SCALE_PLAN:
                self.manual.pop(item["metadata"]["name"], None)
        return None

    def _hand_in(self, work: Coroutine[Any, Any, Any] | None) -> None:
        if work is None:
            return
        if self._stop.is_set() or self._loop.is_closed():
            work.close()
            return
        asyncio.run_coroutine_threadsafe(work, self._loop).result(_POST_SECONDS)

    def _is_node(self, item: Manifest) -> bool:
        """Whether it is a pod of this job's nodes, not of an earlier job of the same name."""
        pod = Pod.from_manifest(item)
        if controller_uid(item) != self._uid:
            return False
        return pod.job == self._job and pod.role == names.WORKER and pod.rank >= 0 and pod.id >= 0

    def _is_mine(self, item: Manifest) -> bool:
        metadata = item["metadata"]
        return bool(metadata["name"] == self._job and metadata.get("uid") == self._uid)

    def _job_of(self, item: Manifest | None) -> ElasticJob | None:
        return None if item is None else self._read(item)

    def _plan_event(self, item: Manifest) -> PlanObserved | ManualPlanObserved | None:
        name = item["metadata"]["name"]
        labels = item["metadata"].get("labels") or {}
        if (item.get("spec") or {}).get("ownerJob") != self._job or controller_uid(item) not in (self._uid, None):
            return None  # a person's plan has no owner; another owner is an earlier job of the same name
        status = item.get("status") or {}
        phase = PlanPhase(status.get("phase") or PlanPhase.PENDING)
        spec = item["spec"]
        exact = spec.get("createPods") or spec.get("removePods")
        if labels.get(names.LABEL_SCALE_TYPE) == names.SCALE_MANUAL and not exact:
            if phase is not PlanPhase.PENDING:
                self.manual.pop(name, None)
                return None
            self.manual[name] = event = manual_plan(item)
            return event
        last = (status.get("conditions") or [{}])[-1]
        return PlanObserved(name, phase, last.get("reason", ""), last.get("message", ""))


def manual_plan(item: Manifest) -> ManualPlanObserved:
    """Return a person's plan as an event, with what is wrong about it."""
    name, uid = item["metadata"]["name"], item["metadata"].get("uid", "")
    try:
        plan = ScalePlan.from_manifest(item)
    except InvalidManifest as error:
        return ManualPlanObserved(name, uid, 0, str(error))
    specs = plan.spec.replica_resource_specs
    other = sorted(set(specs) - {names.WORKER})
    if other:
        return ManualPlanObserved(
            name, uid, 0, f"spec.replicaResourceSpecs.{other[0]}: only the role {names.WORKER} can be scaled"
        )
    wanted = specs.get(names.WORKER)
    if wanted is None or wanted.replicas is None:
        where = f"spec.replicaResourceSpecs.{names.WORKER}.replicas"
        return ManualPlanObserved(name, uid, 0, f"{where}: is required, and is absent")
    if wanted.resource:
        where = f"spec.replicaResourceSpecs.{names.WORKER}.resource"
        return ManualPlanObserved(
            name, uid, 0, f"{where}: a running job's resources can't be changed; submit it again with others"
        )
    return ManualPlanObserved(name, uid, wanted.replicas, advice=_advice(plan.spec.explanation))


def _advice(explained: Explanation | None) -> Cause | None:
    """Return the recommendation that a plan carries out, None where it is a person's own."""
    if explained is None or not explained.recommendation:
        return None
    return Cause(
        explained.reason,
        explained.message,
        explained.recommendation,
        explained.predicted_samples_per_second or 0.0,
        explained.predicted_lower or 0.0,
        explained.predicted_upper or 0.0,
        explained.price_per_hour or 0.0,
    )
