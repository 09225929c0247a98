"""Servers that ``make servers`` started: their addresses reach the tests as ``CONVOY_TEST_*`` variables."""

from __future__ import annotations

import os
from pathlib import Path


def pytest_configure() -> None:
    """Read the addresses before any test gets another home; one that the environment gives prevails."""
    cache = os.environ.get("XDG_CACHE_HOME")
    folder = (Path(cache) if cache else Path.home() / ".cache") / "convoy" / "servers"
    for file in sorted(folder.glob("*.env")):
        for line in file.read_text().splitlines():
            name, found, value = line.partition("=")
            if found:
                os.environ.setdefault(name, value)
