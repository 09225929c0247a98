"""Where Convoy keeps things on one machine, by the XDG base directory specification."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from convoy.core.api import names
from convoy.core.api.errors import Unusable


def config_file() -> Path:
    """Return the settings file: ``CONVOY_CONFIG``, else ``$XDG_CONFIG_HOME/convoy/convoy.toml``."""
    given = os.environ.get("CONVOY_CONFIG")
    return Path(given) if given else _base("XDG_CONFIG_HOME", ".config") / "convoy.toml"


def state_dir() -> Path:
    """Return the folder of the local cluster, the Brain's database, jobs' files: ``CONVOY_STATE_DIR``, else XDG's."""
    given = os.environ.get("CONVOY_STATE_DIR")
    return Path(given) if given else _base("XDG_STATE_HOME", ".local/state")


def operator_lock(state: Path) -> Path:
    """Return the file whose lock the operator of that state directory holds (see ProcessLock)."""
    return state / "operator.lock"


def jobs_dir(state: Path) -> Path:
    """Return the folder below which each job has its own."""
    return state / "jobs"


def job_dir(state: Path, namespace: str, job: str, uid: str) -> Path:
    """Return the folder that a job's pods share."""
    return jobs_dir(state) / namespace / names.job_folder(job, uid)


def _base(variable: str, fallback: str) -> Path:
    root = os.environ.get(variable)
    return (Path(root) if root else Path.home() / fallback) / "convoy"


def ensure_writable(directory: Path) -> Path:
    """Create the folder, private to the user, and return it absolute.

    Raises:
        Unusable: it can't be created or written.
    """
    directory = directory.expanduser().absolute()
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise Unusable(
            f"state directory {directory}: {error.strerror or error}; "
            "name a writable one with CONVOY_STATE_DIR or --state-dir",
            reason="StateDirectoryUnwritable",
        ) from error
    return directory
