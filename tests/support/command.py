"""The ``convoy`` command as people run it: a process of its own, timed."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = (sys.executable, "-m", "convoy.cli.main")


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    ``cpu`` is the processor time that it and its children took; unlike ``seconds`` it doesn't grow with what else the
    machine is doing, so limits are asserted on it.
    """

    status: int
    out: str
    err: str
    seconds: float
    cpu: float


def convoy(*arguments: str | Path, timeout: float = 50.0, **options: Any) -> Ended:
    """Run the command to its end."""
    begin = time.monotonic()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False, **options
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - begin, cpu)


def start(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Start the command; its output is one text on stdout."""
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options
    )
