"""A server's process: started in the background, found again by its pid and its folder, ended within a deadline."""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import psutil

START_SECONDS = 60.0
STOP_SECONDS = 30.0


class Failed(Exception):
    """A server didn't do what it was asked to; the message ends with what it wrote last."""


class Process:
    """One program with a folder of its own, which its command line has to name.

    Whoever has the folder can find the process, end it or freeze it, whoever started it. ``NAME.pid`` and
    ``NAME.log`` lie in the folder.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.log = folder / f"{name}.log"
        self._pid = folder / f"{name}.pid"
        self._child: subprocess.Popen[bytes] | None = None

    def start(
        self, command: Sequence[str], ready: Callable[[], bool], *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the command and wait until it is ready.

        Raises:
            Failed: it ended, or wasn't ready within a minute; it runs no more then.
        """
        if not any(str(self.folder) in argument for argument in command):
            raise ValueError(f"the command line of {self.name} doesn't name its folder {self.folder}")
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.log, "wb") as output:
            self._child = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # what interrupts a test run doesn't end its servers before the tests
            )
        try:
            self._pid.write_text(str(self._child.pid))
            self._wait_until(ready)
        except BaseException:
            self.kill()
            raise

    def running(self) -> psutil.Process | None:
        """Return the process, if the one with the recorded pid is ours and lives."""
        if self._child is not None and self._child.poll() is not None:
            return None
        with contextlib.suppress(OSError, ValueError, psutil.Error):
            process = psutil.Process(int(self._pid.read_text()))
            if any(str(self.folder) in argument for argument in process.cmdline()):  # a zombie has no command line
                return process
        return None

    def stop(self) -> None:
        """Ask it to end, and wait until it has.

        Raises:
            Failed: it didn't within 30 s; it was killed.
        """
        if not self._end(signal.SIGTERM):
            self.kill()
            raise Failed(f"{self.name} didn't end within {STOP_SECONDS:g} s of SIGTERM and was killed")

    def kill(self) -> None:
        """End it as a crash does.

        Raises:
            Failed: the kernel didn't end it.
        """
        if not self._end(signal.SIGKILL):
            raise Failed(f"{self.name} didn't end within {STOP_SECONDS:g} s of SIGKILL")

    def freeze(self) -> None:
        """Let it answer nothing, its connections open, until ``thaw``.

        Raises:
            Failed: it isn't stopped within 30 s.
        """
        if process := self.running():
            process.suspend()
            until = time.monotonic() + STOP_SECONDS
            while process.status() != psutil.STATUS_STOPPED:
                if time.monotonic() > until:
                    raise Failed(f"{self.name} isn't stopped {STOP_SECONDS:g} s after SIGSTOP")
                time.sleep(0.01)

    def thaw(self) -> None:
        """Let it go on."""
        if process := self.running():
            process.resume()

    def last_words(self) -> str:
        """Return the end of its log, and where the log is."""
        text = self.log.read_text(errors="replace") if self.log.is_file() else ""
        return f"the end of {self.log}:\n{text[-2000:]}"

    def _wait_until(self, ready: Callable[[], bool]) -> None:
        assert self._child is not None
        until = time.monotonic() + START_SECONDS
        while not ready():
            if self._child.poll() is not None:
                raise Failed(f"{self.name} ended with status {self._child.returncode}: {self.last_words()}")
            if time.monotonic() > until:
                raise Failed(f"{self.name} wasn't ready within {START_SECONDS:g} s: {self.last_words()}")
            time.sleep(0.05)

    def _lives(self, process: psutil.Process) -> bool:
        """Whether a thread of it runs. Its command line goes earlier, and its ports with the last thread."""
        if self._child is not None and self._child.pid == process.pid:
            return self._child.poll() is None
        with contextlib.suppress(psutil.NoSuchProcess):
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        return False

    def _end(self, how: signal.Signals) -> bool:
        process = self.running()
        if process is not None:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(how)
                process.resume()  # a frozen one takes no other signal
            until = time.monotonic() + STOP_SECONDS
            while self._lives(process):
                if time.monotonic() > until:
                    return False
                time.sleep(0.02)
        self._pid.unlink(missing_ok=True)
        return True


def stop_all(processes: Iterable[Process]) -> None:
    """Stop them in turn, also those after one that fails to.

    Raises:
        Failed: one of them didn't end in order.
    """
    with contextlib.ExitStack() as stops:
        for process in reversed(list(processes)):
            stops.callback(process.stop)


def free_port() -> int:
    """Return a port that nothing has, below those that the kernel gives to clients.

    A client that calls a stopped server on one of the kernel's own ports may be given that very port, and is then
    connected to itself: https://www.rfc-editor.org/rfc/rfc9293#section-3.5 (simultaneous open).
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.SystemRandom().sample(range(20_000, lowest), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise Failed(f"none of 100 ports between 20000 and {lowest} is free")
