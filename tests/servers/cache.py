"""Where the tests' servers keep what they build and store: outside the tree, under the user's cache."""

from __future__ import annotations

import os
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "convoy"
"""Computed when this is imported: tests have homes of their own later."""

PROGRAMS = CACHE / "programs"
"""What Go built, a folder for each set of versions; nothing else is in it, so it may be removed at any time."""

SERVERS = CACHE / "servers"
"""For each server its folder, its lock and, while it runs, ``NAME.env`` with its addresses."""
