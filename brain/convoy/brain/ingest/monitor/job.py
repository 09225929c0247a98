"""An ElasticJob as a row of ``job``. Pure."""

from __future__ import annotations

from convoy.brain.ingest.monitor import accelerators
from convoy.brain.ingest.monitor.parts import Part, Row
from convoy.core.api import names
from convoy.core.api.job import Container, OptimizeMode, Strategy
from convoy.core.api.job_status import Phase
from convoy.core.api.template import template_key

_WORD = 131_000
"""Characters of an argument, as Linux has it."""
_STRATEGIES = {strategy.value: strategy.short for strategy in Strategy}
_MODES = {
    **{mode.value: mode.value for mode in OptimizeMode},
    "manunal": OptimizeMode.MANUAL.value,  # as DLRover's constant is spelt
}
_STATES = {
    Phase.CREATED.value: "Waiting",
    Phase.PENDING.value: "Waiting",
    "Suspended": "Waiting",  # DLRover's
    Phase.RUNNING.value: "Running",
    Phase.SCALING.value: "Running",
    Phase.RESTARTING.value: "Running",
    Phase.SUCCEEDED.value: "Succeeded",
    Phase.FAILED.value: "Failed",
}


def row(job: Part, user_label: str) -> Row:
    """Return what the object says; what it doesn't say is empty. Texts are cut, what can't be right is left out.

    Raises:
        Refused: its uid, name or namespace can't be used.
    """
    metadata, spec, status = job["metadata"], job["spec"], job["status"]
    template = _template(spec)
    main = _main(template)
    return {
        "uid": metadata["uid"].identifier(64),
        "name": metadata["name"].identifier(253),
        "namespace": metadata["namespace"].identifier(63),
        "template": _key(main),
        "image": main["image"].text(1024),
        "user": metadata["labels"][user_label].text(255),
        "model": metadata["labels"][names.LABEL_MODEL].text(255),
        "dataset": metadata["labels"][names.LABEL_DATASET].text(255),
        "strategy": spec["distributionStrategy"].choice(_STRATEGIES),
        "optimize_mode": _mode(spec),
        "accelerator": accelerators.kind(template["spec"]["nodeSelector"].labels())[:255],
        "state": status["phase"].choice(_STATES),
        "made_at": metadata["creationTimestamp"].moment(),
        "ended_at": status["completionTime"].moment(),
    }


def _template(spec: Part) -> Part:
    """Return the template of the role that trains."""
    roles = spec["replicaSpecs"]
    role = next((role for role in names.NODE_ROLES if roles[role]), names.WORKER)
    return roles[role]["template"]


def _main(template: Part) -> Part:
    containers = list(template["spec"]["containers"])
    if not containers:
        template["spec"]["containers"].fault("holds no container: image and command aren't known")
        return Part(None, f"{template.path}.spec.containers[0]", template.faults)
    return containers[names.main_container([one["name"].text(253) for one in containers])]


def _key(main: Part) -> str:
    """Return the key that the job's master finds for the same container."""
    if not main:
        return ""
    return template_key(
        Container.model_construct(
            image=main["image"].raw(), command=main["command"].words(_WORD), args=main["args"].words(_WORD)
        )
    )


def _mode(spec: Part) -> str:
    """Return who sizes the job: where the spec doesn't say, the default."""
    mode = spec["optimizeMode"]
    return mode.choice(_MODES) if mode or not spec else OptimizeMode.SINGLE_JOB.value
