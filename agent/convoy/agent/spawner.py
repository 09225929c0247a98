"""The agent's side of the fork server: starts it, starts workers through it, starts it again when it is lost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from convoy.agent import forkserver
from convoy.core.api.errors import DeadlineMissed

PRELOAD = ("torch", "torch.distributed", "torch._dynamo", "torch.nn.parallel")
"""What every training script imports; none of it starts threads or touches a GPU."""
START_DEADLINE = 120.0
_ENTRY = "import sys; del sys.path[0]; from convoy.agent import forkserver; forkserver.main()"


@dataclass(frozen=True)
class Command:
    """What a worker runs: ``path`` and ``module`` are Python, ``program`` is executed."""

    kind: str
    script: str
    arguments: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    streams: Mapping[int, int]
    """Descriptors that become the worker's, by their number there; closed here once sent."""


class Process:
    """A worker process, or one about to be."""

    def __init__(self, number: int) -> None:
        loop = asyncio.get_running_loop()
        self.number = number
        self.pid: int | None = None
        self.started: asyncio.Future[int] = loop.create_future()
        self.exited: asyncio.Future[int] = loop.create_future()
        """Its exit status; negative: the signal that ended it."""


class Spawner:
    """Owns the fork server. Make it first of all: its imports run beside everything else."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        self.losses = 0
        """How often the fork server was lost."""
        self._modules, self._environment = tuple(modules), dict(environment)
        self._numbers = itertools.count(1)
        self._processes: dict[int, Process] = {}
        self._frames = forkserver.Frames()
        self._ready = asyncio.Event()
        self._launch()

    def _launch(self) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-c", _ENTRY, str(theirs.fileno()), str(os.getpid()), *self._modules],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=self._environment,
            )

    @property
    def pid(self) -> int:
        """Pid of the fork server."""
        return self._server.pid

    def attach(self) -> None:
        """Listen to the server from the running event loop."""
        asyncio.get_running_loop().add_reader(self._control.fileno(), self._read)

    async def ready(self, timeout: float) -> None:
        """Wait until the modules are imported, so that a worker starts at once; never longer than a start may take.

        Raises:
            DeadlineMissed: it took too long.
        """
        seconds = min(max(0.0, timeout), START_DEADLINE)
        try:
            await asyncio.wait_for(self._ready.wait(), seconds)
        except TimeoutError:
            raise self._too_slow(seconds) from None

    async def start(self, command: Command) -> Process:
        """Start a worker; returns when it has a pid.

        Raises:
            DeadlineMissed: the server didn't answer in time.
        """
        process = Process(next(self._numbers))
        self._processes[process.number] = process
        message = {
            "op": "start",
            "id": process.number,
            "kind": command.kind,
            "script": command.script,
            "arguments": list(command.arguments),
            "env": dict(command.env),
            "cwd": command.cwd,
            "streams": list(command.streams),
        }
        data = forkserver.frame(message)
        try:
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # lost: told by _read
                sent = socket.send_fds(self._control, [data], list(command.streams.values()))
                self._control.sendall(data[sent:])
        finally:
            for descriptor in command.streams.values():
                os.close(descriptor)
        try:
            process.pid = await asyncio.wait_for(asyncio.shield(process.started), START_DEADLINE)
        except TimeoutError:
            raise self._too_slow(START_DEADLINE) from None
        return process

    def _too_slow(self, seconds: float) -> DeadlineMissed:
        return DeadlineMissed(
            f"the fork server (pid {self.pid}) wasn't ready within {seconds:.3g} s; "
            "does importing torch take so long? --start-method=spawn does without it"
        )

    def signal(self, process: Process, number: int) -> None:
        """Send a signal to a worker's process group, unless it has ended."""
        if not process.exited.done():
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._control.sendall(forkserver.frame({"op": "signal", "id": process.number, "signal": number}))

    def close(self) -> None:
        """End the server and with it every worker."""
        with contextlib.suppress(RuntimeError, ValueError):
            asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        if not self._ready.is_set():  # it has no workers yet, and may import for seconds
            self._server.kill()
        try:
            self._server.wait(5)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait(5)

    def _read(self) -> None:
        try:
            data = self._control.recv(1 << 16)
        except ConnectionResetError:
            data = b""
        if not data:
            self._lost()
            return
        for message in self._frames.feed(data):
            self._heed(message)

    def _heed(self, message: dict[str, Any]) -> None:
        process = self._processes.get(message.get("id", 0))
        if message["event"] == "ready":
            self._ready.set()
        elif message["event"] == "started" and process is not None:
            process.pid = message["pid"]
            process.started.set_result(message["pid"])
        elif message["event"] == "exited" and process is not None:
            del self._processes[process.number]
            process.exited.set_result(message["status"])

    def _lost(self) -> None:
        """The server is gone, and with it its workers: say so, and start another."""
        self.losses += 1
        asyncio.get_running_loop().remove_reader(self._control.fileno())
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._server.wait(0.2)
        if self._server.poll() is None:
            self._server.kill()
            self._server.wait(5)
        lost, self._processes = list(self._processes.values()), {}
        self._frames = forkserver.Frames()
        self._ready.clear()
        self._launch()
        self.attach()
        for process in lost:
            if not process.started.done():
                process.started.set_result(0)
            self._end_orphan(process)

    def _end_orphan(self, process: Process) -> None:
        """Kill a worker whose server is gone; it counts as ended once it is."""
        loop = asyncio.get_running_loop()
        try:
            handle = os.pidfd_open(process.pid or 0)
        except OSError:  # ended, or never started
            process.exited.set_result(-signal.SIGKILL)
            return

        def ended() -> None:
            loop.remove_reader(handle)
            os.close(handle)
            process.exited.set_result(-signal.SIGKILL)

        loop.add_reader(handle, ended)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid or 0, signal.SIGKILL)
