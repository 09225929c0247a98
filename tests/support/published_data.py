"""Public data sets, where this machine has them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def folder(*files: str) -> Path:
    """Return the folder of data sets that holds all of these files; skip the test where there is none."""
    checkout = Path(__file__).parents[2]
    tried = [Path(given)] if (given := os.environ.get("CONVOY_DATA")) else [checkout.parent / "shared/data"]
    for place in tried:
        if all((place / file).is_file() for file in files):
            return place
    pytest.skip(f"no {files[0]} in {tried[0]}: CONVOY_DATA=DIR names a folder of data sets")
