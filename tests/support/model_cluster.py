"""A cluster in memory for tests of pure reconcilers: objects that change when the test says so."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Generator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from convoy.core.api.errors import AlreadyExists, NotFound
from convoy.core.api.meta import Manifest
from convoy.core.api.moments import timestamp
from convoy.core.cluster.port import Change, Kind, Listing
from support.clock import FakeClock

Key = tuple[str, str, str]


class ModelCluster:
    """The cluster port without watch and without processes.

    ``created`` and ``deleted`` name the pods in the order in which that was asked and granted; a deleted pod stays
    with its deletionTimestamp until ``bury``.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.objects: dict[Key, Manifest] = {}
        self.created: list[str] = []
        self.deleted: list[str] = []
        self.graces: dict[str, float | None] = {}
        self.status_writes = 0
        self.fail_next: Exception | None = None
        self._numbers = itertools.count(1)
        self._owned: dict[tuple[Key, str], set[str]] = {}

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        try:
            return copy.deepcopy(self.objects[kind, namespace, name])
        except KeyError:
            raise NotFound(f"{kind} {namespace}/{name}: not there") from None

    def list(self, kind: Kind, namespace: str | None = None, labels: Mapping[str, str] | None = None) -> Listing:
        found = [
            copy.deepcopy(one)
            for (its_kind, its_namespace, _), one in sorted(self.objects.items())
            if its_kind == kind
            and namespace in (None, its_namespace)
            and (labels or {}).items() <= (one["metadata"].get("labels") or {}).items()
        ]
        return Listing(found, "0")

    def pages(self, kind: Kind, namespace: str | None = None) -> Iterator[Listing]:
        yield self.list(kind, namespace)

    def watch(
        self, kind: Kind, since: str, namespace: str | None = None, *, timeout: float = 30.0
    ) -> Generator[Change, None, str]:
        raise AssertionError("a pure reconciler doesn't watch")

    def create(self, manifest: Manifest, *, field_manager: str) -> Manifest:
        if self.fail_next is not None and manifest["kind"] == "Pod":
            error, self.fail_next = self.fail_next, None
            raise error
        key = self._key(manifest)
        if key in self.objects:
            raise AlreadyExists(f"{key}: there already")
        stored = copy.deepcopy(manifest)
        number = next(self._numbers)
        now = timestamp(datetime.fromtimestamp(self.clock.now(), UTC))
        stored["metadata"] = {
            "namespace": "default",
            "uid": f"uid-{number}",
            "generation": 1,
            "creationTimestamp": now,
            **stored["metadata"],
        }
        if key[0] == "Pod":
            stored["status"] = {"phase": "Pending"}
            self.created.append(key[2])
        if key[0] == "Service":
            stored["spec"]["ports"][0].setdefault("port", 40_000 + number)
            stored["status"] = {"address": f"127.0.0.1:{stored['spec']['ports'][0]['port']}"}
        self.objects[key] = stored
        return copy.deepcopy(stored)

    def apply(self, manifest: Manifest, *, field_manager: str, force: bool = False) -> Manifest:
        key = self._key(manifest)
        if key not in self.objects:
            return self.create(manifest, field_manager=field_manager)
        self.objects[key].update({name: copy.deepcopy(one) for name, one in manifest.items() if name != "metadata"})
        return self.get(Kind(key[0]), key[1], key[2])

    def apply_status(self, manifest: Manifest, *, field_manager: str, force: bool = True) -> Manifest:
        key = self._key(manifest)
        if key not in self.objects:
            raise NotFound(f"{key}: not there")
        self.status_writes += 1
        status: dict[str, Any] = self.objects[key].setdefault("status", {})
        for name in self._owned.get((key, field_manager), set()) - manifest["status"].keys():
            status.pop(name, None)
        self._owned[key, field_manager] = set(manifest["status"])
        status.update(copy.deepcopy(manifest["status"]))
        return self.get(Kind(key[0]), key[1], key[2])

    def delete(
        self, kind: Kind, namespace: str, name: str, *, grace_seconds: float | None = None, uid: str | None = None
    ) -> None:
        one = self.objects.get((kind, namespace, name))
        if one is None or (uid is not None and one["metadata"]["uid"] != uid):
            raise NotFound(f"{kind} {namespace}/{name}: not there")
        if kind is not Kind.POD:
            del self.objects[kind, namespace, name]
            return
        assert "deletionTimestamp" not in one["metadata"], f"{name} is deleted twice"
        self.deleted.append(name)
        self.graces[name] = grace_seconds
        one["metadata"]["deletionTimestamp"] = timestamp(datetime.fromtimestamp(self.clock.now(), UTC))

    def logs(self, namespace: str, pod: str, *, tail: int | None = None) -> str:
        return ""

    def bury(self) -> None:
        """Let the pods that are being deleted go."""
        for key in [key for key, one in self.objects.items() if "deletionTimestamp" in one["metadata"]]:
            del self.objects[key]

    def vanish(self, name: str) -> None:
        """Take a pod away, as a lost machine would."""
        self.objects.pop(("Pod", "default", name), None)

    def set_pod(self, name: str, phase: str, exit_code: int | None = None) -> None:
        """Set a pod's phase, as its kubelet would."""
        status: dict[str, Any] = {"phase": phase}
        if exit_code is not None:
            status["containerStatuses"] = [{"state": {"terminated": {"exitCode": exit_code}}}]
        self.objects["Pod", "default", name]["status"] = status

    def pods(self, role: str | None = None) -> dict[str, Manifest]:
        """Return the pods by name, of a role where one is given."""
        found = (one for key, one in self.objects.items() if key[0] == "Pod")
        return {
            one["metadata"]["name"]: one
            for one in found
            if role in (None, one["metadata"]["labels"]["elasticjob.dlrover/replica-type"])
        }

    @staticmethod
    def _key(manifest: Manifest) -> Key:
        metadata = manifest["metadata"]
        return manifest["kind"], metadata.get("namespace", "default"), metadata["name"]
