"""A machine for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.machine import Machine, machine


@pytest.fixture
def here(state_dir: Path) -> Iterator[Machine]:
    """Return this machine as a cluster of the test's own; all that runs on it ends with the test."""
    with machine(state_dir) as made:
        yield made
