"""Which processes belong to a demo's folder."""

from __future__ import annotations

import os
from pathlib import Path


def processes_of(directory: Path) -> list[int]:
    """Return the processes that work on a demo's folder, by their environment."""
    mark, found = os.fsencode(directory / "state"), []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if mark in Path(entry.path, "environ").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
