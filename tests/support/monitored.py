"""A store as it becomes when a cluster's objects are told: without a cluster, and by a monitor over a real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.ingest.monitor import known, place, store
from convoy.brain.ingest.monitor.monitor import Monitor
from convoy.brain.ingest.monitor.store import Place
from convoy.brain.ingest.monitor.told import Entry, translate
from convoy.brain.store.engine import reading, writing
from convoy.core.api.meta import Manifest
from convoy.core.cluster.follow import Known, Pace
from convoy.core.cluster.kubernetes import KubernetesReader
from convoy.core.cluster.port import Change, Kind
from support.raw_objects import RawObjects

START = datetime(2026, 2, 1, tzinfo=UTC)


class Told:
    """The store as it becomes when changes are told, a second apart."""

    def __init__(self, engine: Engine, name: str = "here") -> None:
        self.engine = engine
        self.now = START
        with writing(engine) as connection:
            self.place: Place = place.settle(connection, name, "uid-of-here", "v1", self.now)

    def tell(self, *manifests: dict[str, Any], change: Any = "ADDED") -> list[Entry]:
        """Store manifests in one batch; return what has to wait."""
        self.now += timedelta(seconds=1)
        told = [
            translate(Kind(manifest["kind"]), Change(change, manifest), "user", self.now) for manifest in manifests
        ]
        with writing(self.engine) as connection:
            return store.write(connection, self.place, [entry for entry in told if entry], self.now)

    def forget(self, *manifests: dict[str, Any]) -> None:
        """Tell that objects went while nobody looked."""
        bare = [
            {
                **{key: manifest[key] for key in ("apiVersion", "kind")},
                "metadata": {k: v for k, v in manifest["metadata"].items() if k in ("uid", "name", "namespace")},
            }
            for manifest in manifests
        ]
        self.tell(*bare, change="DELETED")

    def known(self, kind: Kind, namespace: str | None = None) -> list[Known]:
        with reading(self.engine) as connection:
            return known.known(connection, self.place, kind, namespace)

    def rows(self, table: type[Any]) -> list[Any]:
        with reading(self.engine) as connection:
            return list(connection.execute(sa.select(table).order_by(*table.__table__.primary_key)))

    def row(self, table: type[Any]) -> Any:
        (only,) = self.rows(table)
        return only


class Live:
    """Hands in a real cluster: objects as a test wrote them, with the status that controllers would give them."""

    def __init__(self, hands: RawObjects) -> None:
        self.hands = hands

    def put(self, manifest: Manifest) -> Manifest:
        """Create an object with its status, and return it as the cluster has it."""
        metadata = {key: value for key, value in manifest["metadata"].items() if key not in _THE_SERVERS}
        made = self.hands.create({**manifest, "metadata": metadata})
        return self.say(made, **manifest["status"]) if manifest.get("status") else made

    def say(self, manifest: Manifest, **status: Any) -> Manifest:
        """Change an object's status."""
        kind, metadata = Kind(manifest["kind"]), manifest["metadata"]
        return self.hands.set_status(kind, metadata.get("namespace"), metadata["name"], **status)

    def drop(self, manifest: Manifest) -> None:
        """Delete an object."""
        metadata = manifest["metadata"]
        self.hands.delete(Kind(manifest["kind"]), metadata.get("namespace"), metadata["name"])


_THE_SERVERS = ("uid", "resourceVersion", "creationTimestamp")


@contextmanager
def monitored(engine: Engine, reader: KubernetesReader, **options: Any) -> Iterator[Monitor]:
    """Run a monitor over a cluster; the reader is closed at the end."""
    options = {"name": "here", "pace": QUICK, **options}
    monitor = Monitor(engine, reader, close=reader.close, **options)
    monitor.start()
    try:
        yield monitor
    finally:
        monitor.stop()


QUICK = Pace(watch=20.0, resync=600.0, first_wait=0.05, longest_wait=0.5)
