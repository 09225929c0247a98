"""Manifests of what a job owns: its nodes' pods, its master's pod and service. Pure.

A pod is its role's template with names, labels and environment added; what the user wrote stays, but for
restartPolicy (a pod that ended is replaced under a new name) and, in a master's template, what runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from convoy.core.api import names, resources
from convoy.core.api.job import ElasticJob, PodTemplate, ReplicaSpec
from convoy.core.api.meta import Manifest
from convoy.core.api.plan import PodMeta
from convoy.core.cluster.port import Kind
from convoy.operator.actions import CreateObject

_MASTER_REQUESTS = {"cpu": "100m", "memory": "256Mi"}
_MASTER_GRACE_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Site:
    """What the operator knows of its surroundings.

    Attributes:
        master_image: image of masters' pods.
        master_command: their command, without the job's flags.
        brain_address: host:port of the Brain for jobs that name none.
        jobs_dir: folder below which each job gets its own (one machine); None where volumes do that.
        master_port: port of masters' services; None: the cluster chooses a free one, for ever.
        master_env: variables of masters' pods.
        master_account: service account of masters' pods whose template names none; None: the namespace's default.
        master_role: ClusterRole that it is bound to in a job's namespace, where it is made; None: both are there.
    """

    master_image: str
    master_command: Sequence[str]
    brain_address: str | None = None
    jobs_dir: Path | None = None
    master_port: int | None = None
    master_env: Mapping[str, str] = field(default_factory=dict)
    master_account: str | None = None
    master_role: str | None = None

    def job_dir(self, job: ElasticJob) -> Path | None:
        """Return the folder that the job's pods share."""
        if self.jobs_dir is None:
            return None
        meta = job.metadata
        return self.jobs_dir / meta.namespace / names.job_folder(meta.name, meta.uid)


def service_address(service: Manifest) -> str | None:
    """Return host:port under which a service is reached; None while it has no port."""
    stated = (service.get("status") or {}).get("address")
    if isinstance(stated, str) and stated:
        return stated
    port = service_port(service)
    metadata = service["metadata"]
    return f"{metadata['name']}.{metadata.get('namespace', 'default')}.svc:{port}" if port else None


def service_port(service: Manifest) -> int | None:
    """Return a service's first port; None while it has none."""
    ports = (service.get("spec") or {}).get("ports") or [{}]
    port = ports[0].get("port")
    return int(port) if port else None


def master_service(job: ElasticJob, site: Site) -> CreateObject:
    """Return the creation of the master's stable service."""
    port: Manifest = {"name": "grpc", "protocol": "TCP"}
    if site.master_port is not None:
        port |= {"port": site.master_port, "targetPort": site.master_port}
    selector = {
        names.LABEL_APP_NAME: names.APP_NAME,
        names.LABEL_JOB: job.metadata.name,
        names.LABEL_ROLE: names.MASTER,
    }
    spec = {"selector": selector, "ports": [port]}
    labels = {names.LABEL_APP_NAME: names.APP_NAME, names.LABEL_JOB: job.metadata.name}
    return _create(job, Kind.SERVICE, names.master_service(job.metadata.name), labels, {}, spec)


def master_pod(job: ElasticJob, site: Site, index: int, service: Manifest, *, brain_token: bool) -> CreateObject:
    """Return the creation of the job's master of that index; ``brain_token``: the job's Secret holds the Brain's."""
    name = names.master_pod(job.metadata.name, index)
    replica = job.spec.replica_specs.get(names.MASTER)
    spec: Manifest = _spec(replica.template) if replica else {"containers": [{"name": "main"}]}
    main = _main(spec, replica.template if replica else None)
    for replaced in ("image", "command", "args", "workingDir"):
        main.pop(replaced, None)
    main["image"] = site.master_image
    main["command"] = [
        *site.master_command, "--job", job.metadata.name, "--namespace", job.metadata.namespace,
    ]  # fmt: skip
    main.setdefault("resources", {"requests": dict(_MASTER_REQUESTS)})
    env = {**_common_env(job, site, name), **site.master_env}
    env[names.ENV_MASTER_PORT] = str(service_port(service) or names.MASTER_PORT)
    brain = job.spec.brain_service or site.brain_address
    if brain:
        env[names.ENV_BRAIN_ADDRESS] = brain
    if brain and brain_token:
        env[names.ENV_BRAIN_TOKEN] = _from_secret(job, "brain-token")
    _add_env(main, env)
    spec["restartPolicy"] = "Never"
    spec.setdefault("terminationGracePeriodSeconds", _MASTER_GRACE_SECONDS)
    if site.master_account is not None:
        spec.setdefault("serviceAccountName", site.master_account)
    _prioritize(spec, replica, 0, 1)
    given = replica.template.metadata if replica else None
    labels = names.pod_labels(job.metadata.name, names.MASTER, node_id=index, rank=0)
    annotations = {names.ANNOTATION_NICE: names.CONTROL_NICE, **(given.annotations if given else {}), **_place(job)}
    return _create(job, Kind.POD, name, {**(given.labels if given else {}), **labels}, annotations, spec)


def master_rights(job: ElasticJob, site: Site) -> list[CreateObject]:
    """Return the creations of the account of a namespace's masters and of its rights there; jobs share them."""
    if site.master_account is None or site.master_role is None:
        return []
    namespace, name = job.metadata.namespace, site.master_account
    metadata = {"name": name, "namespace": namespace, "labels": {names.LABEL_APP_NAME: names.APP_NAME}}
    group = "rbac.authorization.k8s.io"
    account = {"apiVersion": "v1", "kind": str(Kind.SERVICE_ACCOUNT), "metadata": metadata}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": str(Kind.ROLE_BINDING),
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": site.master_role},
        "subjects": [{"kind": str(Kind.SERVICE_ACCOUNT), "name": name, "namespace": namespace}],
    }
    return [
        CreateObject(Kind.SERVICE_ACCOUNT, namespace, name, account),
        CreateObject(Kind.ROLE_BINDING, namespace, name, binding),
    ]


def node_pod(job: ElasticJob, site: Site, node: PodMeta, service: Manifest, *, nodes: int) -> CreateObject:
    """Return the creation of a node's pod; ``nodes``: how many of its role there will be."""
    replica = job.spec.replica_specs[node.type]
    name = names.pod(job.metadata.name, node.type, node.id)
    spec = _spec(replica.template)
    main = _main(spec, replica.template)
    if node.resource:
        given: dict[str, Any] = main.get("resources") or {}
        main["resources"] = {
            **given,
            "requests": {**(given.get("requests") or {}), **node.resource},
            "limits": {**(given.get("limits") or {}), **node.resource},
        }
    env = _common_env(job, site, name)
    env |= {
        names.ENV_NODE_IP: _from_field("status.hostIP"),
        names.ENV_NODE_TYPE: node.type,
        names.ENV_NODE_ID: str(node.id),
        names.ENV_NODE_RANK: str(node.rank_index),
        names.ENV_NODE_NUM: str(nodes),
        names.ENV_MASTER_ADDRESS: service_address(service) or "",
    }
    asked = resources.requested(spec)
    env |= {names.ENV_WORKER_CPU: f"{asked.cores:g}"} if asked.cores else {}
    env |= {names.ENV_WORKER_MEMORY: str(asked.memory)} if asked.memory else {}
    _add_env(main, env, {name: one.to_json() for name, one in (job.spec.envs or {}).items()})
    spec["restartPolicy"] = "Never"
    _prioritize(spec, replica, node.id, nodes)
    labels = names.pod_labels(
        job.metadata.name, node.type, node_id=node.id, rank=node.rank_index, relaunches=node.relaunch_count
    )
    given_meta = replica.template.metadata
    annotations = {**given_meta.annotations, **_place(job)}
    return _create(job, Kind.POD, name, {**given_meta.labels, **labels}, annotations, spec)


def _create(
    job: ElasticJob, kind: Kind, name: str, labels: Mapping[str, str], annotations: Mapping[str, str], spec: Manifest
) -> CreateObject:
    namespace = job.metadata.namespace
    metadata: Manifest = {
        "name": name,
        "namespace": namespace,
        "labels": dict(labels),
        "ownerReferences": [job.owner_reference()],
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    manifest = {"apiVersion": "v1", "kind": str(kind), "metadata": metadata, "spec": spec}
    return CreateObject(kind, namespace, name, manifest)


def _spec(template: PodTemplate) -> Manifest:
    """Return a template's spec as the user wrote it, to be changed."""
    return template.spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


def _main(spec: Manifest, template: PodTemplate | None) -> Manifest:
    """Return the training container of a template's spec as JSON, to be changed in place."""
    wanted = template.main().name if template else "main"
    container: Manifest = next(one for one in spec["containers"] if one["name"] == wanted)
    return container


def _common_env(job: ElasticJob, site: Site, pod: str) -> dict[str, Any]:
    env: dict[str, Any] = {
        names.ENV_JOB_NAME: job.metadata.name,
        names.ENV_JOB_UID: job.metadata.uid,
        names.ENV_POD_NAME: pod,
        names.ENV_POD_NAMESPACE: job.metadata.namespace,
        names.ENV_POD_IP: _from_field("status.podIP"),
        names.ENV_JOB_TOKEN: _from_secret(job, "token"),
    }
    directory = site.job_dir(job)
    if directory is not None:
        env[names.ENV_JOB_DIR] = str(directory)
    return env


def _add_env(container: Manifest, env: Mapping[str, Any], shared: Mapping[str, Manifest] | None = None) -> None:
    """Put Convoy's variables in front, so that a user's own can refer to them; they replace namesakes.

    ``shared``: those of all the job's nodes, which a container's own prevail over.
    """
    given = [one for one in container.get("env") or [] if one.get("name") not in env]
    own = {one.get("name") for one in given}
    ours = [
        {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}
        for name, value in env.items()
    ]
    container["env"] = ours + [one for name, one in (shared or {}).items() if name not in own | set(env)] + given


def _prioritize(spec: Manifest, replica: ReplicaSpec | None, node_id: int, nodes: int) -> None:
    """Set the priority class: the role's, or high for a fraction of its nodes, those of the lowest ids."""
    if replica is None or replica.priority is None:
        return
    if replica.priority in ("high", "low"):
        spec["priorityClassName"] = replica.priority
    else:
        spec["priorityClassName"] = "high" if node_id < round(nodes * float(replica.priority)) else "low"


def _from_secret(job: ElasticJob, key: str) -> Manifest:
    return {"secretKeyRef": {"name": names.token_secret(job.metadata.name), "key": key}}


def _from_field(path: str) -> Manifest:
    return {"fieldRef": {"fieldPath": path}}


def _place(job: ElasticJob) -> dict[str, str]:
    directory = job.metadata.annotations.get(names.ANNOTATION_WORKING_DIRECTORY)
    return {names.ANNOTATION_WORKING_DIRECTORY: directory} if directory else {}
