"""A master's state in a ConfigMap of the job's, where no folder outlives a pod.

Each document is a key. A write names the version that it replaces, and the epoch of who wrote it stands beside: a
master that a later one has replaced finds a version that isn't its own, and is fenced.

While the cluster can't be reached training goes on, and so do decisions: ``save`` then returns after a moment, later
ones at once, and what they were given is written as soon as that can be done. A master that is lost within such an
outage leaves older state, which the agents' reports correct.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from convoy.core.api import names
from convoy.core.api.errors import (
    AlreadyExists,
    Conflict,
    ConvoyError,
    Fenced,
    NotFound,
    StaleEpoch,
    Unavailable,
    Unusable,
)
from convoy.core.api.meta import Manifest, ObjectMeta, owner_reference
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process import logs
from convoy.core.process.crashpoint import crash_point
from convoy.core.process.files import state_of, state_text
from convoy.master.durable import SCHEMAS

log = logs.get("master.durable")

_PATIENCE_SECONDS = 2.0
"""How long a save waits for a cluster that can't be reached."""
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 15.0


class ConfigMapStore:
    """State in the ConfigMap of one job, which goes with the job."""

    def __init__(self, cluster: Cluster, job: ObjectMeta) -> None:
        self._cluster = cluster
        self._namespace = job.namespace
        self._name = names.master_state(job.name)
        self._owner = owner_reference(names.API_VERSION, str(Kind.ELASTIC_JOB), job)
        self._epoch = 0
        self._version: str | None = None
        self._texts: dict[str, str] = {}
        self._wanted = self._written = 0
        self._failure: ConvoyError | None = None
        self._changed = threading.Condition()
        self._out_of_reach = False
        self._closing = False
        self._writer = threading.Thread(target=self._write_on, name="master-state-writer", daemon=True)

    def acquire(self, epoch: int, wait: float) -> None:
        """Make the state this master's (see the port): the first write, which no earlier master's survives."""
        self._epoch = epoch
        self._writer.start()
        found = self._found()
        self._refuse_later(found)
        with self._changed:
            self._version = found["metadata"]["resourceVersion"] if found else None
            self._texts = dict((found or {}).get("data") or {})
        self._save({})

    def release(self) -> None:
        """Stop writing; what is still unwritten gets a last moment."""
        with self._changed:
            self._changed.wait_for(self._settled, _PATIENCE_SECONDS)
            self._closing = True
            self._changed.notify_all()
        if self._writer.is_alive():
            self._writer.join(_PATIENCE_SECONDS)

    def load(self, kind: str) -> dict[str, Any] | None:
        """Return the document of that kind (see the port).

        Raises:
            Unavailable: the cluster can't be reached.
        """
        text = ((self._found() or {}).get("data") or {}).get(_key(kind))
        if text is None:
            return None
        return state_of(text, self._place(kind), f"master-{kind}", SCHEMAS[kind], {})

    def save(self, kind: str, document: Mapping[str, Any]) -> None:
        """Replace the document (see the port, and the module on outages)."""
        crash_point(f"master.{kind}.before-save")
        self._save({_key(kind): state_text(f"master-{kind}", SCHEMAS[kind], document)})
        crash_point(f"master.{kind}.after-save")

    def _save(self, texts: Mapping[str, str]) -> None:
        with self._changed:
            self._texts |= texts
            self._wanted += 1
            wanted = self._wanted
            self._changed.notify_all()
            patience = 0.0 if self._out_of_reach else _PATIENCE_SECONDS
            self._changed.wait_for(lambda: self._written >= wanted or self._failure is not None, patience)
            if self._failure is None:
                return
            failure = self._failure
            if not isinstance(failure, Fenced):
                self._failure = None  # the next save may do better
        if isinstance(failure, Fenced):
            raise failure
        raise Unusable(f"{self._place()}: can't be written: {failure}", reason=failure.reason) from failure

    # -- the writer

    def _settled(self) -> bool:
        return self._written >= self._wanted or self._failure is not None

    def _write_on(self) -> None:
        """Write the latest texts whenever they changed, one write at a time."""
        pause = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or not self._settled())
                if self._closing:
                    return
                texts, wanted = dict(self._texts), self._wanted
            failure = self._attempt(texts)
            with self._changed:
                if failure is None:
                    self._written = wanted
                elif not isinstance(failure, Unavailable):
                    self._failure = failure
                self._changed.notify_all()
                self._out_of_reach = isinstance(failure, Unavailable)
                if not isinstance(failure, Unavailable):
                    pause = 0.0
                    continue
                if not pause:
                    log.warning("state can't be written; training goes on", why=str(failure), reason=failure.reason)
                pause = min(max(2 * pause, _FIRST_PAUSE_SECONDS), _LONGEST_PAUSE_SECONDS)
                self._changed.wait_for(lambda: self._closing, failure.retry_after or pause)

    def _attempt(self, texts: Mapping[str, str]) -> ConvoyError | None:
        try:
            try:
                self._write(texts)
            except (AlreadyExists, Conflict):
                self._read_version()
                self._write(texts)
        except ConvoyError as error:
            return error
        except Exception as error:  # a fault of ours must be told, not lose the writer
            log.exception("state can't be written")
            return ConvoyError(repr(error))
        return None

    def _write(self, texts: Mapping[str, str]) -> None:
        metadata: Manifest = {
            "name": self._name,
            "namespace": self._namespace,
            "annotations": {names.ANNOTATION_EPOCH: str(self._epoch)},
            "ownerReferences": [self._owner],
        }
        manifest = {"apiVersion": "v1", "kind": str(Kind.CONFIG_MAP), "metadata": metadata, "data": dict(texts)}
        if self._version is None:
            written = self._cluster.create(manifest, field_manager=names.MANAGER_MASTER)
        else:
            metadata["resourceVersion"] = self._version
            written = self._cluster.apply(manifest, field_manager=names.MANAGER_MASTER, force=True)
        self._version = written["metadata"]["resourceVersion"]

    def _read_version(self) -> None:
        """Find out why a version isn't ours: a later master, or our own write whose answer was lost."""
        found = self._found()
        self._refuse_later(found)
        self._version = found["metadata"]["resourceVersion"] if found else None

    def _refuse_later(self, found: Manifest | None) -> None:
        said = ((found or {}).get("metadata") or {}).get("annotations") or {}
        epoch = int(said.get(names.ANNOTATION_EPOCH) or 0)
        if epoch > self._epoch:
            raise StaleEpoch(f"{self._place()}: a master of epoch {epoch} has it, this one's is {self._epoch}")

    def _found(self) -> Manifest | None:
        try:
            return self._cluster.get(Kind.CONFIG_MAP, self._namespace, self._name)
        except NotFound:
            return None

    def _place(self, kind: str = "") -> str:
        return f"ConfigMap {self._namespace}/{self._name}" + (f", {_key(kind)}" if kind else "")


def _key(kind: str) -> str:
    return f"{kind}.json"
