"""The demo's surroundings: its folder, its own control plane, and waits that end. All of it ends with the demo."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.status import Status
from rich.text import Text

from convoy.cli import local
from convoy.core.api.errors import ConvoyError, DeadlineMissed, InvalidInput, Unusable
from convoy.core.cluster.port import Cluster
from convoy.core.process.lock import ProcessLock
from convoy.core.process.paths import ensure_writable, operator_lock

T = TypeVar("T")

_MARK = "convoy-demo"
"""File that says that a folder is a demo's, to be replaced by the next."""
_PERIOD = 0.2
_LEAVE = 45.0  # seconds within which the operator has ended all pods and itself


class Stage:
    """A folder with a control plane of its own, which ends when this process does, however it ends.

    A ``cat`` that reads from us is what the operator is told to end with: it ends when we close its input, or die.
    """

    def __init__(self, directory: Path, console: Console) -> None:
        self.directory = directory.absolute()
        self.state = self.directory / "state"
        self.console = console
        self.begin = time.monotonic()
        self._lock = ProcessLock(self.directory.with_name(f".{self.directory.name}.lock"))
        self._anchor: subprocess.Popen[bytes] | None = None
        self._operator: local.Operator | None = None
        self._status: Status | None = None
        self.cluster: Cluster

    def open(self) -> None:
        """Make the folder anew. Nothing is started yet.

        Raises:
            InvalidInput: the folder holds something that isn't an earlier demo's.
            Unusable: another demo runs in it, or it can't be written.
        """
        ensure_writable(self.directory.parent)
        if not self._lock.acquire():
            raise Unusable(
                f"{self.directory}: a demo (pid {self._lock.holder()}) runs there; name another with --dir"
            )
        if self.directory.exists():
            if any(self.directory.iterdir()) and not (self.directory / _MARK).is_file():
                raise InvalidInput(f"{self.directory}: isn't an earlier demo's folder; name another with --dir")
            self._await_earlier()
            shutil.rmtree(self.directory)
        ensure_writable(self.state)
        (self.directory / _MARK).touch()
        os.environ["CONVOY_STATE_DIR"] = str(self.state)

    def _await_earlier(self) -> None:
        """Wait until what an earlier demo left, if it was killed, has ended by itself."""
        lock = ProcessLock(operator_lock(self.state))
        until = time.monotonic() + _LEAVE
        while (pid := lock.holder()) is not None:
            if time.monotonic() > until:
                raise Unusable(f"{self.directory}: an operator (pid {pid}) of an earlier demo runs there; end it")
            time.sleep(_PERIOD)

    def start(self) -> None:
        """Start the control plane: an operator, and by it the Brain."""
        self.cluster = local.open_cluster()
        self.keep()

    def keep(self) -> None:
        """Start again what was lost of what belongs to us. Cheap: call it again and again.

        Raises:
            Unavailable: the operator ends as soon as it starts.
        """
        if self._anchor is None or self._anchor.poll() is not None:
            self._anchor = subprocess.Popen(
                ["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
            )
            self._operator = local.Operator(self.state, exit_with=self._anchor.pid)
        assert self._operator is not None
        self._operator.ensure()

    def wait(self, condition: Callable[[], T | None], what: str, seconds: float) -> T:
        """Return the first answer of ``condition`` that isn't None or False.

        Raises:
            DeadlineMissed: it never came; the message says what was awaited.
        """
        until = time.monotonic() + seconds
        while True:
            self.keep()
            answer = condition()
            if answer is not None and answer is not False:
                return answer
            if time.monotonic() >= until:
                raise DeadlineMissed(f"waited {seconds:.0f} s for {what}; see the logs in {self.state}")
            time.sleep(_PERIOD)

    def say(self, *parts: str | tuple[str, str]) -> None:
        """Tell what happens, with the time since the beginning; ``parts``: text, or text and its style, no markup."""
        since = f"{time.monotonic() - self.begin:6.1f} s"
        self.console.print(Text.assemble((since, "dim"), "  ", *parts), soft_wrap=True)

    def doing(self, text: str) -> None:
        """Show what is awaited, where the output is a terminal."""
        if not self.console.is_terminal:
            return
        if self._status is None:
            self._status = self.console.status(Text(text))
            self._status.start()
        self._status.update(Text(text))

    def close(self) -> None:
        """End everything that was started; whatever the state, nothing is left after it."""
        if self._status is not None:
            self._status.stop()
        if self._anchor is not None and self._anchor.stdin is not None:
            self._anchor.stdin.close()
            self._anchor.wait()
        self._end_operator()
        self._lock.release()
        self._lock.path.unlink(missing_ok=True)

    def _end_operator(self) -> None:
        if self._operator is None or self._operator.await_end(_LEAVE):
            return
        pid = self._operator.pid()
        if pid:
            os.kill(pid, signal.SIGKILL)
        raise ConvoyError(f"the operator (pid {pid}) didn't end in {_LEAVE:.0f} s; see {self._operator.log}")
