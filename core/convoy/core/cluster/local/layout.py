"""Where the local cluster keeps its files below the state directory."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Layout(NamedTuple):
    """Paths of one local cluster; ``root`` is ``<state directory>/cluster``."""

    root: Path

    @classmethod
    def of_state_dir(cls, state_dir: Path) -> Layout:
        """Return the layout of a state directory."""
        return cls(state_dir / "cluster")

    @property
    def state_dir(self) -> Path:
        """The state directory."""
        return self.root.parent

    @property
    def database(self) -> Path:
        """The objects."""
        return self.root / "cluster.db"

    @property
    def kubelet_lock(self) -> Path:
        """Held by the one process that starts pods."""
        return self.root / "kubelet.lock"

    @property
    def shims(self) -> Path:
        """Folder of the shims' locks."""
        return self.root / "shims"

    def shim_lock(self, uid: str) -> Path:
        """Return the lock that the pod's shim holds while it lives."""
        return self.shims / f"{uid}.lock"

    @property
    def all_logs(self) -> Path:
        """Folder of all pods' logs."""
        return self.root / "logs"

    def logs(self, namespace: str, pod: str) -> Path:
        """Return the folder of the logs of all pods that had this name."""
        return self.all_logs / namespace / pod

    def log(self, namespace: str, pod: str, uid: str) -> Path:
        """Return the file of what one pod printed; it stays when the pod is gone."""
        return self.logs(namespace, pod) / f"{uid}.log"
