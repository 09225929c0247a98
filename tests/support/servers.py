"""Servers that ``make servers`` started: their addresses reach the tests as ``CONVOY_TEST_*`` variables."""

from __future__ import annotations

import os

from servers.cache import SERVERS


def pytest_configure() -> None:
    """Read the addresses before any test gets another home; one that the environment gives prevails."""
    for file in sorted(SERVERS.glob("*.env")):
        for line in file.read_text().splitlines():
            name, found, value = line.partition("=")
            if found:
                os.environ.setdefault(name, value)
