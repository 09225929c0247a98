"""LocalKubelet: starts, watches and ends the processes of the local cluster's pods, inside the operator.

Level-triggered: whenever the store changed or a shim ended, all pods are looked at again. Each decision
(``lifecycle``) is carried out on the pod as it stands then.
An operator that starts anew finds the shims that run by their locks.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from convoy.core.api import resources
from convoy.core.api.errors import ConvoyError, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.api.moments import moment, timestamp
from convoy.core.api.resources import Room
from convoy.core.cluster.local import lifecycle, logfiles, podstatus, processes, retention
from convoy.core.cluster.local.adapter import LocalCluster
from convoy.core.cluster.local.lifecycle import Seen, ShimState, Step
from convoy.core.cluster.local.retention import Job
from convoy.core.cluster.port import Kind
from convoy.core.process import logs
from convoy.core.process.lock import ProcessLock

log = logs.get("kubelet")

_RETRY_SECONDS = 0.02
_AFTER_ERROR_SECONDS = 1.0
_PRUNE_SECONDS = 3600.0
_MESSAGE_CHARACTERS = 2048


@dataclass
class _Tracked:
    """What this kubelet remembers of one pod; what it forgets with a restart is found again or doesn't matter."""

    shim: ShimState = ShimState.UNKNOWN
    pidfd: int = -1
    pid: int = 0
    child: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    asked_at: float | None = None
    asked_grace: float | None = None
    retry_at: float = 0.0
    failures: int = 0


class LocalKubelet:
    """Runs pods until it is stopped; they live on without it. One process at a time may run one cluster's."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._lock = ProcessLock(cluster.layout.kubelet_lock)
        self._tracked: dict[str, _Tracked] = {}
        self._parsed: dict[str, tuple[int, Manifest]] = {}
        self._node = Room()
        self._wake = -1
        self._wake_guard = threading.Lock()
        self._poll = select.poll()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._unlisten: Callable[[], None] | None = None

    def start(self) -> None:
        """Begin, in a thread of its own; pods whose shims run are adopted.

        Raises:
            Unusable: another process runs this cluster's pods.
        """
        if not self._lock.acquire():
            raise Unusable(
                f"{self._cluster.layout.root}: process {self._lock.holder()} runs the pods of this cluster already; "
                "stop it, or choose another state directory",
                reason="OperatorRunning",
            )
        self._node = resources.allocatable(self._cluster.register_node()) or Room()
        self._wake = os.eventfd(1, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._poll.register(self._wake, select.POLLIN)
        self._unlisten = self._cluster.signal.listen(self._wake_up)
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)
        self._thread.start()

    def stop(self, timeout: float = 10.0) -> None:
        """Stop looking after the pods; their processes live on and the next kubelet adopts them.

        Where the thread is still busy after ``timeout`` seconds, what it uses stays open and the lock stays held, so
        that no other kubelet runs beside it; both end with this process.
        """
        if self._thread is None:
            return
        self._stopping.set()
        self._wake_up()
        self._thread.join(timeout)
        if self._thread.is_alive():
            log.error("the kubelet is still busy with a pod; it ends with this process", seconds=timeout)
            return
        self._thread = None
        if self._unlisten is not None:
            self._unlisten()
        for tracked in self._tracked.values():
            self._forget_shim(tracked)
        with self._wake_guard:
            os.close(self._wake)
            self._wake = -1
        self._lock.release()

    # -- the loop

    def _wake_up(self) -> None:
        with self._wake_guard, contextlib.suppress(BlockingIOError):
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _run(self) -> None:
        prune_at = 0.0
        while not self._stopping.is_set():
            try:
                again = self._reconcile()
                if time.monotonic() >= prune_at:
                    self._prune_logs()
                    prune_at = time.monotonic() + _PRUNE_SECONDS
                again = prune_at if again is None else min(again, prune_at)
            except Exception:
                log.exception("pods couldn't be looked at; trying again")
                again = time.monotonic() + _AFTER_ERROR_SECONDS
            self._heed(self._poll.poll(max(0.0, again - time.monotonic()) * 1000 + 1))

    def _prune_logs(self) -> None:
        store = self._cluster.store
        found = [json.loads(text)["metadata"] for _, _, text in store.texts(Kind.ELASTIC_JOB)]
        jobs = [Job(one["namespace"], one["name"], moment(one["creationTimestamp"]).timestamp()) for one in found]
        pods = {uid for uid, _, _ in store.texts(Kind.POD)}
        removed = retention.prune(self._cluster.layout.all_logs, pods, jobs, time.time())
        if removed:
            log.info("old logs removed", count=removed)

    def _heed(self, events: list[tuple[int, int]]) -> None:
        ready = {descriptor for descriptor, _ in events}
        if self._wake in ready:
            os.eventfd_read(self._wake)
        for tracked in self._tracked.values():
            if tracked.pidfd in ready:
                self._forget_shim(tracked)
                tracked.shim = ShimState.ENDED

    def _forget_shim(self, tracked: _Tracked) -> None:
        if tracked.pidfd < 0:
            return
        self._poll.unregister(tracked.pidfd)
        os.close(tracked.pidfd)
        tracked.pidfd = -1
        if tracked.child is not None:
            tracked.child.poll()
        else:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(tracked.pid, os.WNOHANG)

    def _reconcile(self) -> float | None:
        """Look at every pod once; return when to look again at the latest."""
        pods = self._pods()
        for uid in self._tracked.keys() - {pod["metadata"]["uid"] for pod in pods}:
            self._forget(uid)
        moments: list[float] = []
        for pod in sorted(pods, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"])):
            try:
                due = self._step(pod, pods)
            except (ConvoyError, OSError) as error:
                log.error("pod couldn't be handled; trying again", pod=pod["metadata"]["name"], error=str(error))
                due = time.monotonic() + _AFTER_ERROR_SECONDS
            if due is not None:
                moments.append(due)
        return min(moments, default=None)

    def _pods(self) -> list[Manifest]:
        parsed: dict[str, tuple[int, Manifest]] = {}
        for uid, version, text in self._cluster.store.texts(Kind.POD):
            known = self._parsed.get(uid)
            parsed[uid] = known if known is not None and known[0] == version else (version, json.loads(text))
        self._parsed = parsed
        return [pod for _, pod in parsed.values()]

    def _step(self, pod: Manifest, pods: list[Manifest]) -> float | None:
        uid = pod["metadata"]["uid"]
        tracked = self._tracked.get(uid)
        if tracked is None:
            tracked = self._tracked[uid] = _Tracked()
            if pod["spec"].get("nodeName") and not podstatus.is_over(pod) and not self._adopt(uid, tracked):
                del self._tracked[uid]
                return time.monotonic() + _RETRY_SECONDS
        seen = Seen(
            pod=pod,
            shim=tracked.shim,
            grace=podstatus.grace(pod),
            started_at=tracked.started_at,
            asked_at=tracked.asked_at,
            asked_grace=tracked.asked_grace,
            retry_at=tracked.retry_at,
        )
        step, due = lifecycle.decide(seen, time.monotonic())
        return self._carry_out(step, seen, tracked, pods) or due

    def _carry_out(self, step: Step, seen: Seen, tracked: _Tracked, pods: list[Manifest]) -> float | None:
        """Do a step; return when to look again, or None where the next change of anything tells."""
        pod = seen.pod
        match step:
            case Step.ADMIT:
                self._admit(pod, pods, tracked)
            case Step.START:
                if not self._fenced(pod):
                    return time.monotonic() + _RETRY_SECONDS
                self._spawn(pod, tracked)
            case Step.START_AGAIN:
                if self._change(pod, podstatus.starting_again):
                    self._spawn(pod, tracked)
            case Step.ASK_TO_END:
                self._signal(tracked, signal.SIGTERM)
                tracked.asked_at, tracked.asked_grace = time.monotonic(), seen.grace
                return tracked.asked_at + seen.grace + lifecycle.OVERDUE_SECONDS
            case Step.KILL_SHIM:
                log.warning("shim overdue: killed", **_names(pod))
                self._signal(tracked, signal.SIGKILL)
                return time.monotonic() + _RETRY_SECONDS
            case Step.DECLARE_LOST:
                return self._declare_lost(pod)
            case Step.BACK_OFF:
                self._back_off(pod, tracked)  # its own change wakes us to look at the clock
            case Step.REMOVE:
                return self._remove(pod)
            case Step.NOTHING:
                pass
        return None

    # -- the steps

    def _admit(self, pod: Manifest, pods: list[Manifest], tracked: _Tracked) -> None:
        current = [self._parsed[one["metadata"]["uid"]][1] for one in pods]
        why_not = lifecycle.refusal(pod, lifecycle.free(self._node, current), self._node)
        if why_not:
            self._change(pod, lambda one: podstatus.unschedulable(one, why_not, _now()))
            return
        placed = self._change(pod, lambda one: podstatus.bound(one, _now()))
        if placed is not None:
            self._parsed[pod["metadata"]["uid"]] = (int(placed["metadata"]["resourceVersion"]), placed)
            self._spawn(placed, tracked)

    def _spawn(self, pod: Manifest, tracked: _Tracked) -> None:
        metadata, layout = pod["metadata"], self._cluster.layout
        where = (metadata["namespace"], metadata["name"], metadata["uid"])
        log_file = layout.log(*where)
        log_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "wb") as output:
            child = subprocess.Popen(
                [sys.executable, "-P", "-m", "convoy.core.cluster.local.shim", os.fspath(layout.database), *where],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._track(tracked, child.pid, child)
        log.info("pod started", **_names(pod))

    def _adopt(self, uid: str, tracked: _Tracked) -> bool:
        """Find the shim of a pod that another kubelet started; False where that can't be told at this instant."""
        lock = ProcessLock(self._cluster.layout.shim_lock(uid))
        holder = lock.holder()
        if holder is None:
            return True
        if holder == 0:
            return False
        try:
            pidfd = os.pidfd_open(holder)
        except ProcessLookupError:
            return False
        if lock.holder() != holder:  # it ended meanwhile, and the pid may be another's
            os.close(pidfd)
            return False
        self._track(tracked, holder, None, pidfd)
        log.info("pod adopted", uid=uid, shim=holder)
        return True

    def _track(
        self, tracked: _Tracked, pid: int, child: subprocess.Popen[bytes] | None, pidfd: int | None = None
    ) -> None:
        tracked.pid, tracked.child = pid, child
        tracked.pidfd = os.pidfd_open(pid) if pidfd is None else pidfd
        tracked.shim, tracked.started_at = ShimState.RUNNING, time.monotonic()
        tracked.asked_at = tracked.asked_grace = None
        self._poll.register(tracked.pidfd, select.POLLIN)

    def _signal(self, tracked: _Tracked, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(tracked.pidfd, number)

    def _fenced(self, pod: Manifest) -> bool:
        """Kill what still runs of a pod whose shim is gone; True once nothing does."""
        left = processes.of_pod(pod["metadata"]["uid"])
        processes.send(left)
        return not left

    def _declare_lost(self, pod: Manifest) -> float | None:
        if not self._fenced(pod):
            return time.monotonic() + _RETRY_SECONDS
        printed = logfiles.read(self._cluster.layout.log(*_where(pod)), 10)[-_MESSAGE_CHARACTERS:].strip()
        message = "the pod's shim was killed or failed; its processes were ended"
        if podstatus.state(pod, "running") is None and printed:
            message = f"{message}; it last printed: {printed}"
        self._change(pod, lambda one: podstatus.terminated(one, podstatus.KILLED, podstatus.LOST, message, _now()))
        log.warning("pod lost its shim", **_names(pod))
        return None

    def _back_off(self, pod: Manifest, tracked: _Tracked) -> None:
        failures = 1 if lifecycle.ran_for(pod) >= lifecycle.BACKOFF_RESET else tracked.failures + 1
        pause = lifecycle.pause(failures)
        message = f"back-off of {pause:g} s before the next start"
        if self._change(pod, lambda one: podstatus.waiting(one, podstatus.CRASH_LOOP, message)):
            tracked.failures, tracked.retry_at = failures, time.monotonic() + pause
            log.info("pod ended and restarts", pause=pause, failures=failures, **_names(pod))

    def _remove(self, pod: Manifest) -> float | None:
        if not self._fenced(pod):
            return time.monotonic() + _RETRY_SECONDS
        self._cluster.remove_ended_pod(*_where(pod))
        log.info("pod removed", **_names(pod))
        return None

    def _forget(self, uid: str) -> None:
        self._forget_shim(self._tracked.pop(uid))
        self._cluster.layout.shim_lock(uid).unlink(missing_ok=True)

    def _change(self, pod: Manifest, change: Callable[[Manifest], Manifest]) -> Manifest | None:
        """Change the pod if it is still as it was seen; None where it changed, which wakes us again."""
        metadata = pod["metadata"]
        with self._cluster.store.transaction() as transaction:
            live = transaction.get(Kind.POD, metadata["namespace"], metadata["name"])
            if live is None or live.manifest != pod:
                return None
            new = change(pod)
            if new == pod:
                return pod
            written = transaction.put(new, live.owners)
        self._cluster.signal.bump()
        return written


def _where(pod: Manifest) -> tuple[str, str, str]:
    metadata = pod["metadata"]
    return metadata["namespace"], metadata["name"], metadata["uid"]


def _names(pod: Manifest) -> dict[str, Any]:
    return {"namespace": pod["metadata"]["namespace"], "pod": pod["metadata"]["name"]}


def _now() -> str:
    return timestamp(datetime.now(UTC))
