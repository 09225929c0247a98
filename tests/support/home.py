"""Each test has a home of its own, under a path short enough for Unix sockets; the user's is never touched."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_XDG = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")
_KEPT = ("CONVOY_DATA", "CONVOY_STRICT", "CONVOY_KEEP", "CONVOY_TEST_")
"""Beginnings of variables that steer the tests themselves; all others of the user's are hidden from them."""


@pytest.fixture(scope="session", autouse=True)
def _session_home() -> Iterator[None]:
    """Fixtures wider than a test get a home as well; figures' font cache outlives the run, for it takes seconds."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory(prefix="cv") as root:
        fonts = Path(tempfile.gettempdir()) / f"convoy-tests-{os.getuid()}-fonts"
        patch.setenv("MPLCONFIGDIR", str(fonts))
        patch.setenv("MPLBACKEND", "Agg")
        _settle(Path(root), patch)
        yield


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the test's root: HOME, XDG folders and CONVOY_STATE_DIR lie in it. ``CONVOY_KEEP=1`` keeps it."""
    root = Path(tempfile.mkdtemp(prefix="cv"))
    _settle(root, monkeypatch)
    yield root
    if not os.environ.get("CONVOY_KEEP"):
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def state_dir(home: Path) -> Path:
    """Return the test's CONVOY_STATE_DIR, made."""
    path = Path(os.environ["CONVOY_STATE_DIR"])
    path.mkdir(exist_ok=True)
    return path


def _settle(root: Path, patch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("CONVOY_") and not name.startswith(_KEPT)]:
        patch.delenv(name)
    patch.setenv("HOME", str(root))
    patch.setenv("CONVOY_STATE_DIR", str(root / "s"))
    for name in _XDG:
        folder = root / name[4:].removesuffix("_HOME").lower()
        folder.mkdir(mode=0o700)
        patch.setenv(name, str(folder))
