"""Servers that ``make servers`` started: their addresses reach the tests as ``CONVOY_TEST_*`` variables.

They are read when this is imported: before any test gets another home, and before the folders' conftests, which
pytest loads ahead of ``pytest_configure`` where a folder is named on its command line.
"""

from __future__ import annotations

import os

from servers.cache import SERVERS


def _read_addresses() -> None:
    """Let an address that the environment gives prevail."""
    for file in sorted(SERVERS.glob("*.env")):
        for line in file.read_text().splitlines():
            name, found, value = line.partition("=")
            if found:
                os.environ.setdefault(name, value)


_read_addresses()
