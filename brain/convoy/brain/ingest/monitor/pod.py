"""A pod of a job as a row of ``job_node``. Pure."""

from __future__ import annotations

from datetime import datetime

from convoy.brain.ingest.monitor import accelerators
from convoy.brain.ingest.monitor.parts import Part, Refused, Row
from convoy.brain.ingest.monitor.plan import owner_uid
from convoy.core.api import names
from convoy.core.api.pod import PodPhase

_PHASES = {phase.value: phase.value for phase in PodPhase}
_UNRESOLVED = {"high": 1, "low": -1}
_OVER = (PodPhase.SUCCEEDED, PodPhase.FAILED)
_TELLING_NOTHING = ("", "Error", "Completed", "ContainerStatusUnknown")
"""Reasons of containers beside which the pod's own say more."""


def is_of_job(pod: Part) -> bool:
    """Whether the pod carries the label of a job."""
    return bool(pod["metadata"]["labels"][names.LABEL_JOB])


def row(pod: Part) -> Row:
    """Return what the object says; ``node`` is the machine's name, ``job_uid`` and ``job_name`` say whose it is.

    What it was allotted is what its containers request together. Its priority is the number that Kubernetes found
    for its class; on one machine nobody looks for one, and a job's own ``high`` and ``low`` count.

    Raises:
        Refused: its uid, name or namespace can't be used, or no ElasticJob controls it.
    """
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    labels = metadata["labels"]
    found = {
        "uid": metadata["uid"].identifier(64),
        "name": metadata["name"].identifier(253),
        "namespace": metadata["namespace"].identifier(63),
        "job_uid": owner_uid(metadata),
        "job_name": labels[names.LABEL_JOB].identifier(253),
    }
    if not found["job_uid"]:
        raise Refused(f"it carries the label {names.LABEL_JOB} and no ElasticJob controls it: it is no job's pod")
    main = _main(spec, status)
    ended, phase = main["state"]["terminated"], status["phase"].choice(_PHASES)
    return {
        **found,
        "role": labels[names.LABEL_ROLE].text(32),
        "rank": labels[names.LABEL_RANK].numeral(),
        "node": spec["nodeName"].text(253),
        **_allotted(spec),
        "phase": phase,
        "reason": _reason(status, main, phase)[:128],
        "exit_code": ended["exitCode"].whole(),
        "restarts": max(0, main["restartCount"].whole() or 0),
        "priority": _priority(spec),
        "created_at": metadata["creationTimestamp"].moment(),
        "started_at": ended["startedAt"].moment() or main["state"]["running"]["startedAt"].moment(),
        "ended_at": _ended_at(status, ended) if phase in _OVER else None,
    }


def _main(spec: Part, status: Part) -> Part:
    """Return the status of the container that trains."""
    containers = [one["name"].text(253) for one in spec["containers"]]
    name = containers[names.main_container(containers)] if containers else "main"
    return status["containerStatuses"].first(lambda one: one["name"].text(253) == name)


def _priority(spec: Part) -> int | None:
    found = spec["priority"].whole()
    return _UNRESOLVED.get(spec["priorityClassName"].text(253)) if found is None else found


def _allotted(spec: Part) -> Row:
    cpu, memory, devices = 0.0, 0, 0
    for container in spec["containers"]:
        asked = container["resources"]
        given = {name: _given(asked, name) for name in (*asked["limits"].names(), *asked["requests"].names())}
        cpu += (given["cpu"].cores() or 0.0) if "cpu" in given else 0.0
        memory += (given["memory"].count() or 0) if "memory" in given else 0
        devices += sum(given[name].count() or 0 for name in accelerators.resources(given))
    bounded = {"memory_allotted": min(memory, 2**63 - 1) or None, "accelerators": float(devices) or None}
    return {"cpu_allotted": cpu or None, **bounded}


def _given(asked: Part, name: str) -> Part:
    """Return what a container asks for of a resource: its request, else its limit."""
    return asked["requests"][name] if asked["requests"][name] else asked["limits"][name]


def _reason(status: Part, main: Part, phase: str) -> str:
    """Return why the pod ended or waits; of several reasons the one that says most."""
    own = status["reason"].text(128)  # Evicted, NodeLost, ...
    ended = main["state"]["terminated"]["reason"].text(128)
    disrupted = _condition(status, "DisruptionTarget", "True")["reason"].text(128)
    if phase in _OVER or ended:
        return own or (disrupted if ended in _TELLING_NOTHING and disrupted else ended)
    waits = main["state"]["waiting"]["reason"].text(128)
    return own or disrupted or waits or _condition(status, "PodScheduled", "False")["reason"].text(128)


def _condition(status: Part, type_: str, value: str) -> Part:
    return status["conditions"].first(lambda one: one["type"].text(64) == type_ and one["status"].text(8) == value)


def _ended_at(status: Part, ended: Part) -> datetime | None:
    """Return when a pod that is over ended: its container, else when it was last said to be no longer ready."""
    told = [ended["finishedAt"].moment(), _condition(status, "Ready", "False")["lastTransitionTime"].moment()]
    return next((moment for moment in told if moment), None)
