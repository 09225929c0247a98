"""The small process that a pod is on one machine: it starts the pod's command, and its death is the pod's.

    python -m convoy.core.cluster.local.shim DATABASE NAMESPACE NAME UID

It holds the pod's lock while it lives, leads a session of its own, so that it survives the operator, and is the
reaper of all that the pod starts, so that nothing of the pod can outlive it unnoticed:

- the main process dies with the shim (the kernel's parent-death signal),
- when the main process ends, what is left of the pod is killed, and only then the outcome is written,
- SIGTERM is handed to the main process; after the pod's grace period everything is killed.

It has one thread and handles signals one after the other, so nothing here can interrupt anything else.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from convoy.core.api import names
from convoy.core.api.moments import timestamp
from convoy.core.cluster.local import environment, podstatus, processes
from convoy.core.cluster.local.environment import StartError
from convoy.core.cluster.local.layout import Layout
from convoy.core.cluster.local.store import Store
from convoy.core.process.crashpoint import crash_point
from convoy.core.process.lock import ProcessLock
from convoy.core.process.parent import at_parents_end

_SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_MESSAGE_BYTES = 2048
_NOT_STARTED = 127
_PR_SET_CHILD_SUBREAPER = 36
_LIBC = ctypes.CDLL(None, use_errno=True)


class Shim:
    """One run of one pod's command."""

    def __init__(self, layout: Layout, namespace: str, name: str, uid: str) -> None:
        self.layout = layout
        self.namespace = namespace
        self.name = name
        self.uid = uid
        self.store = Store(layout.database)
        self.log = layout.log(namespace, name, uid)
        self._log_start = 0
        self._kill_at: float | None = None

    def run(self) -> None:
        """Start the pod's command, wait for its end, write the outcome."""
        with self.store.transaction() as transaction:
            found = transaction.get("Pod", self.namespace, self.name)
            if found is None or found.uid != self.uid or not _startable(found.manifest):
                return
            pod = found.manifest

            def secret(name: str) -> dict[str, Any] | None:
                stored = transaction.get("Secret", self.namespace, name)
                return None if stored is None else stored.manifest

            try:
                env = environment.environment(pod, self._base(), secret)
                words = environment.command(pod, env)
                directory = self._directory(pod)
                nice = environment.nice(pod)
            except StartError as error:
                ended = podstatus.terminated(pod, _NOT_STARTED, error.reason, str(error), _now())
                transaction.put(ended, found.owners)
                return
        self._log_start = self.log.stat().st_size
        crash_point("shim.before-start")
        pid, problem = _spawn(words, env, directory, nice, self.log)
        if problem:
            os.waitpid(pid, 0)
            self._finish(_NOT_STARTED, "StartError", problem)
            return
        if not self._write(lambda pod: podstatus.running(pod, pid, _now())):
            self._kill_rest()  # the object is gone: nobody asked for these processes
            return
        crash_point("shim.running")
        status = self._wait(pid)
        self._kill_rest()
        crash_point("shim.before-outcome")
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            self._finish(128 - code, "Killed", self._tail() or f"ended by {signal.Signals(-code).name}")
        else:
            self._finish(code, "Completed" if code == 0 else "Error", self._tail())

    def _base(self) -> dict[str, str]:
        return environment.base_environment(
            os.environ, os.path.dirname(sys.executable), os.fspath(self.layout.state_dir)
        )

    def _directory(self, pod: dict[str, Any]) -> str:
        annotations = pod["metadata"].get("annotations") or {}
        chosen = environment.container(pod).get("workingDir") or annotations.get(names.ANNOTATION_WORKING_DIRECTORY)
        directory = str(chosen or self.layout.state_dir)
        if not os.path.isdir(directory):
            raise StartError(f"container workingDir: {directory!r} is no directory of this machine")
        return directory

    def _wait(self, main: int) -> int:
        """Reap what ends and pass on requests to stop until the main process has ended; return its wait status."""
        asked = False
        while True:
            received = _next_signal(self._kill_at)
            if received is None:
                self._kill_at = None
                processes.send([main, *processes.descendants(os.getpid())])
            elif received != signal.SIGCHLD:
                kill_at = time.monotonic() + self._grace()
                self._kill_at = kill_at if self._kill_at is None else min(self._kill_at, kill_at)
                if not asked:
                    processes.send([main], signal.SIGTERM)
                asked = True
            status = _reap(main)
            if status is not None:
                return status

    def _grace(self) -> float:
        found = self.store.get("Pod", self.namespace, self.name)
        if found is None or found.uid != self.uid:
            return 0.0
        return podstatus.grace(found.manifest)

    def _kill_rest(self) -> None:
        """Kill what the main process left behind; as the reaper of them all we have no child once all are dead."""
        while True:
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                return
            processes.send(processes.descendants(os.getpid()))
            signal.sigtimedwait([signal.SIGCHLD], 0.01)

    def _finish(self, exit_code: int, reason: str, message: str) -> None:
        self._write(lambda pod: podstatus.terminated(pod, exit_code, reason, message, _now()))
        crash_point("shim.after-outcome")

    def _write(self, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
        with self.store.transaction() as transaction:
            found = transaction.get("Pod", self.namespace, self.name)
            if found is None or found.uid != self.uid:
                return False
            transaction.put(change(found.manifest), found.owners)
        return True

    def _tail(self) -> str:
        """Return the last lines that this run printed, 2 KB at most."""
        with open(self.log, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            begin = max(self._log_start, end - _MESSAGE_BYTES)
            file.seek(begin)
            text = file.read(_MESSAGE_BYTES).decode(errors="replace")
        if begin > self._log_start and "\n" in text[:-1]:
            text = text.partition("\n")[2]
        return text.strip()


def main(arguments: list[str]) -> int:
    """Run the shim; a second one of the same pod ends at once and changes nothing."""
    database, namespace, name, uid = arguments
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    layout = Layout(Path(database).parent)
    lock = ProcessLock(layout.shim_lock(uid))
    if not lock.acquire():
        return 0
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    Shim(layout, namespace, name, uid).run()
    return 0


def _startable(pod: dict[str, Any]) -> bool:
    waiting = podstatus.state(pod, "waiting") or {}
    return (
        not pod["metadata"].get("deletionTimestamp")
        and not podstatus.is_over(pod)
        and waiting.get("reason") == podstatus.CREATING
    )


def _now() -> str:
    return timestamp(datetime.now(UTC))


def _next_signal(until: float | None) -> int | None:
    """Wait for a signal; None when ``until`` (monotonic seconds) comes first."""
    if until is None:
        return signal.sigwaitinfo(_SIGNALS).si_signo
    received = signal.sigtimedwait(_SIGNALS, max(0.0, until - time.monotonic()))
    return None if received is None else received.si_signo


def _reap(main: int) -> int | None:
    """Reap all that have ended; return the main process's wait status if it is among them."""
    ended = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        if pid == main:
            ended = status


def _spawn(words: list[str], env: dict[str, str], directory: str, nice: int, log: Path) -> tuple[int, str]:
    """Start the command; return its pid, and why it couldn't be started (empty: it runs)."""
    shim = os.getpid()
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        _become(words, env, directory, nice, output, write, shim)
    os.close(write)
    os.close(output)
    with open(read, "rb") as file:  # ends when the program is executed, or with what went wrong
        problem = file.read().decode(errors="replace")
    return pid, problem


def _become(
    words: list[str], env: dict[str, str], directory: str, nice: int, output: int, report: int, shim: int
) -> NoReturn:
    try:
        os.setsid()
        at_parents_end(signal.SIGKILL)
        if os.getppid() != shim:
            os._exit(_NOT_STARTED)
        if nice:
            os.nice(nice)
        os.chdir(directory)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1)
        os.dup2(output, 2)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them; programs expect the default
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.execvpe(words[0], words, env)
    except (OSError, ValueError) as error:
        where = f"PATH {env.get('PATH', '')}" if "/" not in words[0] else f"working directory {directory}"
        message = f"command {words[0]!r}: {getattr(error, 'strerror', None) or error}; looked in {where}"
        os.write(report, message.encode(errors="replace")[:_MESSAGE_BYTES])
    finally:
        os._exit(_NOT_STARTED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
