"""What a master persists, through a port: each kind of state as one JSON document, replaced as a whole.

``save`` returns when the document is safe. Two adapters: this one keeps ``<job dir>/master/<kind>.json``, written to
a new file, synced and renamed, and a lock on the folder keeps a second master out until the first one has ended;
where no folder outlives a pod, ``durable_in_cluster`` keeps a ConfigMap.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from convoy.core.api.errors import Unusable
from convoy.core.process.crashpoint import crash_point
from convoy.core.process.files import load_state, save_state
from convoy.core.process.lock import ProcessLock
from convoy.master.decide.state import SCHEMA

STATE = "state"
KEYS = "keys"
DATASETS = "datasets"
JOB = "job"
SCHEMAS = {STATE: SCHEMA, KEYS: 1, DATASETS: 1, JOB: 1}
_LOCK_RETRY_SECONDS = 0.05


class StateStore(Protocol):
    """The port. Methods block and may be called from several threads, for one kind from one at a time.

    Anyone may ``load``; to ``save``, ``acquire`` first.
    """

    def acquire(self, epoch: int, wait: float) -> None:
        """Make the state this master's, keeping earlier ones out; ``wait``: seconds to wait for one to end.

        Raises:
            Unusable: it can't be written, or an earlier master still holds it.
            Fenced: a later master has it.
        """
        ...

    def release(self) -> None:
        """Give it back."""
        ...

    def load(self, kind: str) -> dict[str, Any] | None:
        """Return the document of that kind, None where there is none.

        Raises:
            StateError: it can't be used.
        """
        ...

    def save(self, kind: str, document: Mapping[str, Any]) -> None:
        """Replace the document.

        Raises:
            Unusable: it can't be written; the old one stands.
            Fenced: a later master has it.
        """
        ...


class FileStore:
    """State in files of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = ProcessLock(folder / "lock")

    def acquire(self, epoch: int, wait: float) -> None:
        """Make the folder this process's (see the port); whose epoch is the later one, the state itself says."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise Unusable(
                f"{self.folder}: can't be made: {error.strerror}; name a writable folder with CONVOY_JOB_DIR"
            ) from error
        end = time.monotonic() + wait
        while not self._lock.acquire():
            if time.monotonic() >= end:
                raise Unusable(
                    f"{self.folder}: another master (pid {self._lock.holder()}) still holds it after {wait:g} s; "
                    "end it first",
                    reason="AlreadyRunning",
                )
            time.sleep(_LOCK_RETRY_SECONDS)

    def release(self) -> None:
        """Give the folder back."""
        self._lock.release()

    def load(self, kind: str) -> dict[str, Any] | None:
        """Return the document of that kind (see the port)."""
        return load_state(self._path(kind), f"master-{kind}", SCHEMAS[kind], {})

    def save(self, kind: str, document: Mapping[str, Any]) -> None:
        """Replace the document (see the port)."""
        crash_point(f"master.{kind}.before-save")
        save_state(self._path(kind), f"master-{kind}", SCHEMAS[kind], document)
        crash_point(f"master.{kind}.after-save")

    def _path(self, kind: str) -> Path:
        return self.folder / f"{kind}.json"
