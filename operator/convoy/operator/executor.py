"""Carrying out actions against the cluster, in order.

That an object is there already, or gone already, is what was wanted. The first action that fails ends the decision;
the reconciler looks again and asks for what is missing.
"""

from __future__ import annotations

import base64
import contextlib
import secrets
from collections.abc import Callable, Iterable
from typing import NamedTuple, assert_never

from convoy.core.api import names
from convoy.core.api.errors import AlreadyExists, Conflict, ConvoyError, InvalidManifest, NotFound
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process.crashpoint import crash_point
from convoy.core.process.paths import ensure_writable
from convoy.operator.actions import (
    Action,
    ApplyJobReplicas,
    ApplyJobStatus,
    ApplyPlanStatus,
    CreateObject,
    DeletePlan,
    DeletePod,
    EnsureDirectory,
    EnsureTokenSecret,
)

_TOKEN_BYTES = 32


class Failure(NamedTuple):
    """An action that failed, and how."""

    action: Action
    error: ConvoyError


class Executor:
    """Carries out actions; safe to share between threads. Before each ``permitted`` is called, which may refuse."""

    def __init__(self, cluster: Cluster, permitted: Callable[[], None] = lambda: None) -> None:
        self._cluster = cluster
        self._permitted = permitted

    def run(self, actions: Iterable[Action]) -> Failure | None:
        """Carry out the actions in order; return the first failure, None where all went well."""
        for action in actions:
            crash_point("operator.action")
            try:
                self._permitted()
                self._run(action)
            except ConvoyError as error:
                return Failure(action, error)
        return None

    def _run(self, action: Action) -> None:
        match action:
            case CreateObject():
                self._create(action.manifest)
            case EnsureTokenSecret():
                self._ensure_token(action)
            case EnsureDirectory():
                ensure_writable(action.path)
            case DeletePod():
                self._delete_pod(action)
            case DeletePlan():
                with contextlib.suppress(NotFound):
                    self._cluster.delete(Kind.SCALE_PLAN, action.namespace, action.name, uid=action.uid)
            case ApplyJobStatus():
                self._apply_status(Kind.ELASTIC_JOB, action)
            case ApplyJobReplicas():
                self._apply_replicas(action)
            case ApplyPlanStatus():
                self._apply_status(Kind.SCALE_PLAN, action)
            case _:
                assert_never(action)

    def _create(self, manifest: Manifest) -> None:
        with contextlib.suppress(AlreadyExists):
            self._cluster.create(manifest, field_manager=names.MANAGER_OPERATOR)

    def _delete_pod(self, action: DeletePod) -> None:
        with contextlib.suppress(NotFound):
            self._cluster.delete(
                Kind.POD, action.namespace, action.name, grace_seconds=action.grace_seconds, uid=action.uid
            )

    def _apply_status(self, kind: Kind, action: ApplyJobStatus | ApplyPlanStatus) -> None:
        metadata = {"name": action.name, "namespace": action.namespace}
        if isinstance(action, ApplyJobStatus):
            metadata["uid"] = action.uid
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": str(kind),
            "metadata": metadata,
            "status": action.status,
        }
        self._cluster.apply_status(manifest, field_manager=names.MANAGER_OPERATOR)

    def _apply_replicas(self, action: ApplyJobReplicas) -> None:
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": str(Kind.ELASTIC_JOB),
            "metadata": {"name": action.name, "namespace": action.namespace, "uid": action.uid},
            "spec": {"replicaSpecs": {action.role: {"replicas": action.replicas}}},
        }
        with contextlib.suppress(Conflict, InvalidManifest):
            self._cluster.apply(manifest, field_manager=names.MANAGER_OPERATOR)

    def _ensure_token(self, action: EnsureTokenSecret) -> None:
        held = self._data(action.namespace, action.name)
        made = base64.b64encode(secrets.token_urlsafe(_TOKEN_BYTES).encode()).decode()
        data = {"token": (held or {}).get("token") or made}
        brain = (self._data(names.SYSTEM_NAMESPACE, names.BRAIN_TOKEN_SECRET) or {}).get("token")
        if brain:
            data["brain-token"] = brain
        manifest: Manifest = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "Opaque",
            "metadata": {"name": action.name, "namespace": action.namespace, "ownerReferences": [action.owner]},
            "data": data,
        }
        if held is None:
            self._create(manifest)
        else:
            self._cluster.apply(manifest, field_manager=names.MANAGER_OPERATOR, force=True)

    def _data(self, namespace: str, name: str) -> dict[str, str] | None:
        try:
            return self._cluster.get(Kind.SECRET, namespace, name).get("data") or {}
        except NotFound:
            return None
