"""LocalCluster: the cluster port on one machine. Adds to the store what an API server does around it."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

from convoy.core.api.errors import AlreadyExists, Conflict, Expired, InvalidInput, NotFound, Unavailable
from convoy.core.api.meta import Manifest
from convoy.core.api.moments import timestamp
from convoy.core.cluster import manifests
from convoy.core.cluster.local import apply as merging
from convoy.core.cluster.local import logfiles, node, objects, podstatus, store
from convoy.core.cluster.local.changes import ChangeSignal
from convoy.core.cluster.local.environment import POD_IP
from convoy.core.cluster.local.layout import Layout
from convoy.core.cluster.local.store import Store, Stored, Transaction
from convoy.core.cluster.port import Change, Kind, Listing
from convoy.core.process.paths import ensure_writable

_OBJECT = "object"
_STATUS = "status"


class LocalCluster:
    """The port's adapter for one machine. Several processes, and several threads of each, may use it at once.

    Attributes:
        layout: where its files are.
        store: the objects, for the kubelet.
        signal: hears of commits.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.store = Store(layout.database)
        self.signal = ChangeSignal(self.store)

    @classmethod
    def open(cls, state_dir: Path) -> Self:
        """Open, or make, the cluster of a state directory.

        Raises:
            Unusable: the directory can't be written.
            StateError: what is there is not a cluster, or a newer version wrote it.
        """
        layout = Layout.of_state_dir(ensure_writable(state_dir))
        for folder in (layout.root, layout.shims):
            ensure_writable(folder)
        cluster = cls(layout)
        if cluster.store.get(Kind.NODE, "", podstatus.NODE_NAME) is None:
            cluster.register_node()
        return cluster

    def close(self) -> None:
        """End this process's watches and close its files. Pods live on."""
        self.signal.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- reading

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        """Return the object (see the port)."""
        return _found(self.store.get(kind, namespace, name), kind, namespace, name).manifest

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        """Return objects in the order of their names (see the port)."""
        found, version = self.store.objects(kind, namespace)
        wanted = dict(labels or {})
        return Listing([one for one in found if objects.carries(one, wanted)], str(version))

    def pages(self, kind: Kind, namespace: str | None = None) -> Iterator[Listing]:
        """Yield all in one part: what one machine holds is little (see the port)."""
        yield self.list(kind, namespace)

    def watch(
        self, kind: Kind, since: str, namespace: str | None = None, *, timeout: float = 30.0
    ) -> Generator[Change, None, str]:
        """Yield changes, within 20 ms of another process's commit (see the port)."""
        if not since.isascii() or not since.isdigit():
            raise Expired(f"resourceVersion {since!r} is none of this cluster: list again")
        cursor, until = int(since), time.monotonic() + timeout
        while not self.signal.closed:
            seen = self.signal.count
            try:
                changes, cursor = self.store.changes(kind, cursor, namespace)
            except Unavailable:
                if self.signal.closed:
                    break
                raise
            for change, manifest in changes:
                yield Change(change, manifest)
            left = until - time.monotonic()
            if left <= 0:
                break
            if not changes:
                self.signal.wait(seen, left)
        return str(cursor)

    def logs(self, namespace: str, pod: str, *, tail: int | None = None) -> str:
        """Return what the pod printed; of a pod that is gone, what the last one of that name did (see the port)."""
        stored = self.store.get(Kind.POD, namespace, pod)
        folder = self.layout.logs(namespace, pod)
        if stored is not None:
            path: Path | None = self.layout.log(namespace, pod, stored.uid)
        else:
            path = max(folder.glob("*.log"), key=lambda file: file.stat().st_mtime, default=None)
        if path is None:
            raise NotFound(f"Pod {namespace}/{pod}: no such pod, and no log of an earlier one")
        return logfiles.read(path, tail)

    # -- writing

    def create(self, manifest: Manifest, *, field_manager: str) -> Manifest:
        """Create the object; its fields belong to ``field_manager`` (see the port)."""
        kind, namespace, name = manifests.identity(manifest)
        with self._write() as transaction:
            if transaction.get(kind, namespace, name) is not None:
                raise AlreadyExists(f"{kind} {namespace}/{name} is there already; delete it, or choose another name")
            return self._insert(transaction, manifest, field_manager)

    def apply(self, manifest: Manifest, *, field_manager: str, force: bool = False) -> Manifest:
        """Create the object, or merge into it (see the port)."""
        kind, namespace, name = manifests.identity(manifest)
        with self._write() as transaction:
            live = transaction.get(kind, namespace, name)
            _expect(live, manifest, f"{kind} {namespace}/{name}")
            if live is None:
                return self._insert(transaction, manifest, field_manager)
            wanted = manifests.normal(manifest)
            if (wanted.get("spec") or {}).get("ports"):
                wanted = objects.with_port(wanted, live.manifest, lambda: _free_port(transaction))
            owners = merging.from_json(live.owners.get(_OBJECT, {}))
            merged = merging.merge(
                manifests.writable(live.manifest), manifests.writable(wanted), owners, field_manager, force=force
            )
            new = objects.with_tree(live.manifest, merged.tree)
            if kind is Kind.SERVICE:
                new = objects.with_address(objects.with_port(new, live.manifest, lambda: _free_port(transaction)))
            objects.check(new)
            return _store(transaction, live, new, {**live.owners, _OBJECT: merging.to_json(merged.owners)})

    def apply_status(self, manifest: Manifest, *, field_manager: str, force: bool = True) -> Manifest:
        """Merge the status (see the port)."""
        kind, namespace, name = manifests.identity(manifest)
        with self._write() as transaction:
            live = _found(transaction.get(kind, namespace, name), kind, namespace, name)
            _expect(live, manifest, f"{kind} {namespace}/{name}")
            merged = merging.merge(
                merging.unfold(live.manifest.get("status") or {}),
                merging.unfold(manifest.get("status") or {}),
                merging.from_json(live.owners.get(_STATUS, {})),
                field_manager,
                force=force,
            )
            new = {**live.manifest, "status": merging.fold(merged.tree)}
            if not new["status"] and "status" not in live.manifest:
                del new["status"]
            objects.check(new)
            return _store(transaction, live, new, {**live.owners, _STATUS: merging.to_json(merged.owners)})

    def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        grace_seconds: float | None = None,
        uid: str | None = None,
    ) -> None:
        """Delete the object and what it controls (see the port)."""
        if grace_seconds is not None and grace_seconds < 0:
            raise InvalidInput(f"grace_seconds: expected 0 or more, not {grace_seconds}")
        with self._write() as transaction:
            stored = _found(transaction.get(kind, namespace, name), kind, namespace, name)
            if uid is not None and stored.uid != uid:
                raise NotFound(f"{kind} {namespace}/{name} has uid {stored.uid}, not {uid}: that one is gone")
            _delete(transaction, stored, grace_seconds)

    def remove_ended_pod(self, namespace: str, name: str, uid: str) -> None:
        """Take a pod away whose processes have ended, for the kubelet; nothing happens if it is gone already."""
        with self._write() as transaction:
            stored = transaction.get(Kind.POD, namespace, name)
            if stored is not None and stored.uid == uid:
                transaction.remove(stored.manifest)
                _collect(transaction, uid)

    def register_node(self) -> Manifest:
        """Write down what this machine has to give; an unchanged node writes nothing. Return the Node."""
        new = node.manifest()
        with self._write() as transaction:
            live = transaction.get(Kind.NODE, "", podstatus.NODE_NAME)
            if live is None:
                born = _born(new, Kind.NODE, "", podstatus.NODE_NAME)
                return transaction.put(
                    {**objects.with_tree(born, manifests.writable(new)), "status": new["status"]}, {}
                )
            return _store(transaction, live, {**live.manifest, "status": new["status"]}, live.owners)

    @contextmanager
    def _write(self) -> Iterator[Transaction]:
        with self.store.transaction() as transaction:
            yield transaction
        self.signal.bump()

    def _insert(self, transaction: Transaction, manifest: Manifest, field_manager: str) -> Manifest:
        kind, namespace, name = manifests.identity(manifest)
        wanted = manifests.normal(manifest)
        tree = manifests.writable(wanted)
        owners = merging.merge({}, tree, {}, field_manager, force=True)
        new = objects.with_tree(_born(wanted, kind, namespace, name), owners.tree)
        if kind is Kind.SERVICE:
            new = objects.with_address(objects.with_port(new, None, lambda: _free_port(transaction)))
        elif kind is Kind.POD:
            new = podstatus.pending(new)
        objects.check(new)
        made = transaction.put(new, {_OBJECT: merging.to_json(owners.owners)})
        owner = store.controller(made)
        if owner is not None and not transaction.exists(owner):  # the owner went first: it doesn't outlive it
            _delete(transaction, _found(transaction.get(kind, namespace, name), kind, namespace, name), None)
        return made


def _born(manifest: Manifest, kind: Kind, namespace: str, name: str) -> Manifest:
    metadata: Manifest = {"name": name, **({"namespace": namespace} if namespace else {})}
    metadata |= {"uid": str(uuid.uuid4()), "generation": 1, "creationTimestamp": timestamp(datetime.now(UTC))}
    spec = {"spec": manifest["spec"]} if "spec" in manifest else {}
    return {"apiVersion": manifest.get("apiVersion", "v1"), "kind": kind.value, "metadata": metadata, **spec}


def _found(stored: Stored | None, kind: Kind, namespace: str, name: str) -> Stored:
    if stored is None:
        where = f"{namespace}/{name}" if namespace else name
        raise NotFound(f"{kind} {where}: no such object")
    return stored


def _expect(live: Stored | None, manifest: Manifest, what: str) -> None:
    """Compare-and-swap: refuse a manifest that was read from another state of the object."""
    metadata = manifest["metadata"]
    version, uid = metadata.get("resourceVersion"), metadata.get("uid")
    if live is None:
        if version or uid:
            raise Conflict(f"{what} is gone since it was read (resourceVersion {version}): read again")
        return
    if version and version != live.version:
        raise Conflict(
            f"{what} changed since it was read: resourceVersion {version} is now {live.version}: read again"
        )
    if uid and uid != live.uid:
        raise Conflict(f"{what} is another object than was read: uid {uid} is now {live.uid}: read again")


def _store(transaction: Transaction, live: Stored, new: Manifest, owners: dict[str, Any]) -> Manifest:
    if new != live.manifest:
        return transaction.put(new, owners)
    if owners != live.owners:
        transaction.put_owners(new, owners)
    return live.manifest


def _delete(transaction: Transaction, stored: Stored, grace_seconds: float | None) -> None:
    pod = stored.manifest
    if pod["kind"] != Kind.POD or not _may_have_processes(pod):
        transaction.remove(pod)
        _collect(transaction, stored.uid)
        return
    metadata = pod["metadata"]
    grace = podstatus.grace(pod) if grace_seconds is None else grace_seconds
    if "deletionTimestamp" in metadata and grace >= podstatus.grace(pod):
        return
    moment = timestamp(datetime.now(UTC) + timedelta(seconds=grace))
    whole = int(grace) if grace == int(grace) else grace
    ending = {**metadata, "deletionTimestamp": moment, "deletionGracePeriodSeconds": whole}
    transaction.put({**pod, "metadata": ending}, stored.owners)


def _may_have_processes(pod: Manifest) -> bool:
    return bool(pod["spec"].get("nodeName")) and not podstatus.is_over(pod)


def _collect(transaction: Transaction, owner: str) -> None:
    """Delete what the owner controlled, and what that controlled in turn; pods get their grace."""
    for stored in transaction.controlled_by(owner):
        _delete(transaction, stored, None)


def _free_port(transaction: Transaction) -> int:
    """Return a port that the kernel says is free, and that no Service holds."""
    taken = objects.taken_ports(service.manifest for service in transaction.objects(Kind.SERVICE))
    while True:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind((POD_IP, 0))
            port: int = probe.getsockname()[1]
        if port not in taken:
            return port
