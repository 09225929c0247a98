"""The launcher as people run it, and scripts for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COMMAND = (
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'convoy-run'; from convoy.agent.launch import main; main()",
)


@dataclass(frozen=True)
class Ended:
    """How a launch ended."""

    status: int
    out: str
    err: str
    seconds: float


def launch(*arguments: str | Path, timeout: float = 50.0, env: dict[str, str] | None = None, **options: Any) -> Ended:
    """Run the launcher to its end."""
    begin = time.monotonic()
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env=os.environ | (env or {}),
        **options,
    )
    return Ended(done.returncode, done.stdout, done.stderr, time.monotonic() - begin)


@contextlib.contextmanager
def launched(*arguments: str | Path, env: dict[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start the launcher; it is killed when the block ends."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | (env or {}),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


def script(directory: Path, text: str, name: str = "script.py") -> Path:
    """Write a script."""
    path = directory / name
    path.write_text(textwrap.dedent(text))
    return path
