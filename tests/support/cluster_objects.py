"""Objects of a Kubernetes cluster as its API shows them: machines, jobs, their pods and plans, events."""

from __future__ import annotations

import copy
from typing import Any

from convoy.core.api import names
from support import manifests

Manifest = dict[str, Any]

MADE = "2026-01-31T12:00:00Z"


def _metadata(name: str, namespace: str | None, uid: str, **more: Any) -> Manifest:
    place = {} if namespace is None else {"namespace": namespace}
    return {"name": name, **place, "uid": uid, "resourceVersion": "7", "creationTimestamp": MADE, **more}


def node(name: str = "n1", *, uid: str = "uid-n1", **labels: str) -> Manifest:
    """Return a ready machine with 8 cores, 32 GiB and two accelerators; labels with ``__`` for ``/``."""
    room = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": "2", "pods": "110"}
    given = {name.replace("__", "/"): value for name, value in labels.items()}
    given |= {
        "node.kubernetes.io/instance-type": "a2-highgpu-2g",
        "topology.kubernetes.io/zone": "eu-1b",
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _metadata(name, None, uid, labels=given),
        "spec": {},
        "status": {
            "capacity": room,
            "allocatable": {**room, "cpu": "7910m", "memory": "31Gi"},
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def job(
    name: str = "job", *, namespace: str = "default", uid: str = "uid-job", phase: str = "", **changes: Any
) -> Manifest:
    """Return an ElasticJob; ``changes`` as ``support.manifests.job`` takes them."""
    made = manifests.job(name, **changes)
    made["metadata"] |= _metadata(name, namespace, uid)
    return {**made, "status": {"phase": phase}} if phase else made


def owned_by(owner: Manifest) -> list[Manifest]:
    """Return the reference of what a job controls."""
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    return [{"apiVersion": names.API_VERSION, "kind": "ElasticJob", **named, "controller": True}]


def pod(
    owner: Manifest,
    number: int = 0,
    *,
    uid: str = "",
    node: str = "",
    status: Manifest | None = None,
    role: str = "worker",
) -> Manifest:
    """Return a job's pod that requests 2 cores, 4 GiB and an accelerator."""
    job = owner["metadata"]["name"]
    name = names.pod(job, role, number)
    metadata = _metadata(
        name,
        owner["metadata"]["namespace"],
        uid or f"uid-{name}",
        labels=names.pod_labels(job, role, node_id=number, rank=number),
        ownerReferences=owned_by(owner),
    )
    room = {"requests": {"cpu": "2", "memory": "4Gi"}, "limits": {"nvidia.com/gpu": "1"}}
    spec: Manifest = {"containers": [{"name": "main", "image": "train:1", "resources": room}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**spec, **({"nodeName": node} if node else {})},
        "status": status or {"phase": "Pending"},
    }


def running(at: str = "2026-01-31T12:00:10Z") -> Manifest:
    """Return the status of a pod that runs."""
    main = {"name": "main", "restartCount": 0, "state": {"running": {"startedAt": at}}}
    return {"phase": "Running", "containerStatuses": [main]}


def ended(reason: str = "Completed", exit_code: int = 0, at: str = "2026-01-31T13:00:00Z") -> Manifest:
    """Return the status of a pod that is over."""
    how = {"exitCode": exit_code, "reason": reason, "startedAt": "2026-01-31T12:00:10Z", "finishedAt": at}
    main = {"name": "main", "restartCount": 0, "state": {"terminated": how}}
    return {"phase": "Failed" if exit_code else "Succeeded", "containerStatuses": [main]}


def plan(
    owner: Manifest, number: int = 0, *, replicas: int = 3, by_person: bool = False, phase: str = ""
) -> Manifest:
    """Return a scale plan of the job's master, or of a person: then no one owns it and nothing explains it."""
    name = f"{owner['metadata']['name']}-{'wish' if by_person else 'scaleplan'}-{number}"
    metadata = _metadata(name, owner["metadata"]["namespace"], f"uid-{name}")
    spec: Manifest = {
        "ownerJob": owner["metadata"]["name"],
        "replicaResourceSpecs": {"worker": {"replicas": replicas}},
    }
    if not by_person:
        metadata["ownerReferences"] = owned_by(owner)
        spec["explanation"] = {"reason": "FasterAt", "message": "faster", "predictedSamplesPerSecond": 1200.5}
    made = {"apiVersion": names.API_VERSION, "kind": "ScalePlan", "metadata": metadata, "spec": spec}
    return {**made, "status": {"phase": phase}} if phase else made


def event(of: Manifest, reason: str = "Started", *, at: str = "2026-01-31T12:00:11Z", **more: Any) -> Manifest:
    """Return an event of an object, as the older writers leave it."""
    metadata = of["metadata"]
    place = metadata.get("namespace", "default")
    uid = metadata["name"] if of["kind"] == "Node" else metadata["uid"]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": _metadata(f"{metadata['name']}.{reason.lower()}", place, f"uid-{uid}-{reason}"),
        "involvedObject": {
            "apiVersion": of["apiVersion"],
            "kind": of["kind"],
            "name": metadata["name"],
            "uid": uid,
            **({"namespace": place} if "namespace" in metadata else {}),
        },
        "reason": reason,
        "message": f"{reason} it",
        "type": "Normal",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
        "source": {"component": "kubelet"},
        **more,
    }


def with_(manifest: Manifest, path: str, value: Any) -> Manifest:
    """Return a copy with a value at a path such as ``spec.containers.0.image``."""
    made = copy.deepcopy(manifest)
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    place: Any = made
    for part in parents:
        place = place[part] if isinstance(part, int) else place.setdefault(part, {})
    place[last] = value
    return made
