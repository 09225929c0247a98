"""The operator's process on one machine: the reconcilers, and the kubelet that runs the pods."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path

from convoy.core.api import names
from convoy.core.api.errors import ConvoyError, NotFound, Unusable
from convoy.core.api.job_status import Phase
from convoy.core.api.meta import Manifest
from convoy.core.api.pod import Pod
from convoy.core.cluster.local import LocalCluster, LocalKubelet, open_cluster
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import logs, paths
from convoy.core.process.clock import Clock, SystemClock
from convoy.core.process.lock import ProcessLock
from convoy.core.process.paths import ensure_writable
from convoy.core.process.signals import stop_event
from convoy.operator.controller import Controller
from convoy.operator.pods import Site
from convoy.operator.settings import OperatorSettings

_RUNNING = "OperatorRunning"
_LOOK_SECONDS = 0.2
_IDLE_LOOK_SECONDS = 1.0
_END_SECONDS = 60.0
"""How long pods that are deleted at the end may take."""
_END_GRACE_SECONDS = 5.0


def run(settings: OperatorSettings, brain: Callable[[Cluster], str] | None = None) -> None:
    """Run the operator until SIGTERM, or until the settings have it end. Pods outlive a SIGTERM.

    A job that came while an idle operator was ending, and that found it there still, has it begin again.

    Args:
        settings: the operator's.
        brain: puts a Brain into the cluster, and returns its address; None: the settings' Brain, if any.

    Raises:
        Unusable: another operator runs on the state directory, or it can't be written.
        StateError: what is in the state directory isn't a cluster.
    """
    logs.configure("operator")
    log = logs.get("operator.process")
    state = ensure_writable(settings.state_dir)
    stop = stop_event()
    with open_cluster(state) as cluster:
        end = _hold(cluster, state, settings, brain, stop)
        # Only now, without the lock: who submits a job and sees the lock held is seen here.
        while end is End.IDLE and not stop.is_set() and not idle(cluster):
            log.info("a job came while the operator was ending: it goes on")
            try:
                end = _hold(cluster, state, settings, brain, stop)
            except Unusable as error:
                if error.reason != _RUNNING:
                    raise
                break  # another one was quicker, and has the job


def _hold(
    cluster: LocalCluster,
    state: Path,
    settings: OperatorSettings,
    brain: Callable[[Cluster], str] | None,
    stop: threading.Event,
) -> End:
    """Run as the state directory's one operator; return why it ended."""
    lock = ProcessLock(paths.operator_lock(state))
    if not lock.acquire():
        raise Unusable(
            f"state directory {state}: an operator (pid {lock.holder()}) runs there already; "
            "use that one, end it, or name another directory with --state-dir",
            reason=_RUNNING,
        )
    try:
        if brain is not None:
            settings = settings.model_copy(update={"brain_address": brain(cluster)})
        kubelet = LocalKubelet(cluster)
        kubelet.start()
        try:
            end = _run(cluster, settings, _site(settings, state), stop)
        finally:
            kubelet.stop()
        logs.get("operator.process").info("operator ends", why=end.value)
        return end
    finally:
        lock.release()


def _run(cluster: Cluster, settings: OperatorSettings, site: Site, stop: threading.Event) -> End:
    """Reconcile until the end, and end the pods that end with it; return why it came."""
    clock = SystemClock()
    controller = Controller(
        cluster,
        site,
        clock,
        workers=settings.workers,
        resync=settings.resync_seconds,
        namespaces=settings.namespaces,
    )
    controller.start()
    logs.get("operator.process").info("operator runs", pid=os.getpid(), state_dir=str(settings.state_dir))
    try:
        end = _wait(cluster, clock, settings, stop)
    finally:
        controller.stop()
    if end is End.COMPANION_GONE:
        delete_pods(cluster, clock, None)
    elif end is End.IDLE:
        delete_pods(cluster, clock, names.SYSTEM_NAMESPACE)
    return end


def _site(settings: OperatorSettings, state: Path) -> Site:
    return Site(
        master_image=settings.master_image,
        master_command=tuple(settings.master_command),
        brain_address=settings.brain_address,
        jobs_dir=paths.jobs_dir(state),
    )


class End(Enum):
    """Why an operator ends."""

    STOPPED = "asked to stop"
    COMPANION_GONE = "the process that it was to end with is gone"
    IDLE = "no job is unfinished"


def _wait(cluster: Cluster, clock: Clock, settings: OperatorSettings, stop: threading.Event) -> End:
    companion = None if settings.exit_with is None else _Companion(settings.exit_with)
    busy_at = looked_at = clock.monotonic()
    while not stop.wait(_LOOK_SECONDS):
        if companion is not None and companion.gone():
            return End.COMPANION_GONE
        now = clock.monotonic()
        if settings.exit_when_idle is None or now - looked_at < min(_IDLE_LOOK_SECONDS, settings.exit_when_idle):
            continue
        looked_at = now
        if not seems_idle(cluster):
            busy_at = now
        elif now - busy_at >= settings.exit_when_idle:
            return End.IDLE
    return End.STOPPED


def seems_idle(cluster: Cluster) -> bool:
    """Whether there is nothing to do; a cluster that can't be read at this moment may have work."""
    try:
        return idle(cluster)
    except ConvoyError as error:
        logs.get("operator.process").warning("the cluster couldn't be read; trying again", error=str(error))
        return False


def idle(cluster: Cluster) -> bool:
    """Whether no job is unfinished and no pod runs but Convoy's own."""
    if any(not _is_finished(job) for job in cluster.list(Kind.ELASTIC_JOB).items):
        return False
    pods = (Pod.from_manifest(pod) for pod in cluster.list(Kind.POD).items)
    return all(pod.namespace == names.SYSTEM_NAMESPACE or pod.phase.is_over for pod in pods)


def _is_finished(job: Manifest) -> bool:
    return (job.get("status") or {}).get("phase") in (Phase.SUCCEEDED, Phase.FAILED)


def delete_pods(cluster: Cluster, clock: Clock, namespace: str | None) -> None:
    """Delete the pods of a namespace (None: of all), and wait for their end."""
    deadline = clock.monotonic() + _END_SECONDS
    tick = threading.Event()
    while left := [Pod.from_manifest(pod) for pod in cluster.list(Kind.POD, namespace).items]:
        for pod in left:
            if not pod.deleting:
                try:
                    cluster.delete(Kind.POD, pod.namespace, pod.name, grace_seconds=_END_GRACE_SECONDS, uid=pod.uid)
                except NotFound:
                    continue
        if clock.monotonic() > deadline:
            logs.get("operator.process").warning(
                "some pods did not end in time", seconds=_END_SECONDS, pods=[pod.name for pod in left]
            )
            return
        tick.wait(0.05)


class _Companion:
    """A process that is watched for its end; a later process of the same pid isn't taken for it."""

    def __init__(self, pid: int) -> None:
        try:
            self._file: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._file = None

    def gone(self) -> bool:
        if self._file is None:
            return True
        readable, _, _ = select.select([self._file], [], [], 0)
        return bool(readable)
