"""The Brain as a process of its own, and a caller to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import Any

import grpc

from convoy.core.api.envelope import Envelope
from convoy.core.api.v1 import brain_pb2_grpc
from support.calls import BlockingCaller, blocking_channel

SERVE = (
    "import sys\n"
    "from convoy.brain.serve.process import run\n"
    "from convoy.brain.settings import BrainSettings\n"
    "from convoy.core.api.errors import ConvoyError\n"
    "try:\n"
    "    run(BrainSettings.load())\n"
    "except ConvoyError as error:\n"
    "    print(error, file=sys.stderr)\n"
    "    sys.exit(error.exit_status)\n"
)
TOKEN = "brain-token"


class BrainProcess:
    """`convoy brain serve` on a database, at a port that the kernel chooses unless one is given."""

    def __init__(self, url: str, *, port: int = 0, **environment: str) -> None:
        self.lines: list[dict[str, Any] | str] = []
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE],
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "CONVOY_DATABASE_URL": url,
                "CONVOY_BRAIN_PORT": str(port),
                "CONVOY_BRAIN_TOKEN": TOKEN,
                "CONVOY_LOG_FORMAT": "json",
                **environment,
            },
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            try:
                self.lines.append(json.loads(line))
            except ValueError:
                self.lines.append(line.rstrip())

    def event(self, name: str, seconds: float = 30.0) -> dict[str, Any]:
        """Wait for a log line."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for line in list(self.lines):
                if isinstance(line, dict) and line.get("event") == name:
                    return line
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise AssertionError(f"no {name!r} within {seconds} s; it said {self.lines}")

    @property
    def address(self) -> str:
        return str(self.event("serving")["address"])

    def end(self, seconds: float = 20.0) -> int:
        """Send SIGTERM and return the exit status."""
        self.process.terminate()
        return self.wait(seconds)

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def wait(self, seconds: float = 20.0) -> int:
        status = self.process.wait(seconds)
        self._reader.join(seconds)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return status


class Master:
    """Calls the Brain as a job's master does."""

    def __init__(self, address: str, *, uid: str = "uid-1", token: str = TOKEN, sender: str = "master-0") -> None:
        self.channel: grpc.Channel = blocking_channel(address)
        self.stub = brain_pb2_grpc.BrainStub(self.channel)
        envelope = Envelope(job=uid, token=token, sender=sender, incarnation=time.time_ns())
        self.caller = BlockingCaller(self.channel, envelope)

    def report(self, report: Any, timeout: float = 10.0) -> Any:
        return self.caller.call(self.stub.Report, report, timeout=timeout)

    def ask(self, request: Any, timeout: float = 30.0) -> Any:
        return self.caller.call(self.stub.OptimizeJob, request, timeout=timeout)

    def close(self) -> None:
        self.channel.close()
