"""What a job is, from its ElasticJob: the facts that decisions go by, and its description for the Brain. Pure."""

from __future__ import annotations

from convoy.core.api import names
from convoy.core.api.job import ElasticJob, Strategy
from convoy.core.api.template import template_key
from convoy.core.api.v1 import brain_pb2
from convoy.master.decide.state import Facts

_NOT_YET = tuple(role for role in names.NODE_ROLES if role != names.WORKER)
_LABEL_USER = "user"


def facts(job: ElasticJob, *, brain: bool) -> Facts:
    """Return what decisions go by; ``brain``: whether one is configured."""
    metadata = job.metadata
    others = [role for role, spec in job.spec.replica_specs.items() if role in _NOT_YET and (spec.replicas or 0) > 0]
    refusal = ""
    if job.spec.distribution_strategy is not Strategy.ALLREDUCE:
        refusal = (
            f"distributionStrategy {job.spec.distribution_strategy.value}: only {Strategy.ALLREDUCE.value} is run"
        )
    elif others:
        refusal = f"replicaSpecs.{others[0]}: only the role {names.WORKER} is run"
    return Facts(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        worker=job.spec.replica_specs[names.WORKER],
        mode=job.spec.mode,
        brain=brain,
        pinned=metadata.annotations.get(names.ANNOTATION_PIN, "").lower() == "true",
        refusal=refusal,
    )


def description(job: ElasticJob, state: str) -> brain_pb2.JobDescription:
    """Return the job's description for the Brain."""
    main = job.spec.replica_specs[names.WORKER].template.main()
    strategy = "allreduce" if job.spec.distribution_strategy is Strategy.ALLREDUCE else "ps"
    return brain_pb2.JobDescription(
        uid=job.metadata.uid,
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        template=template_key(main),
        image=main.image or "",
        user=job.metadata.labels.get(_LABEL_USER, ""),
        strategy=strategy,
        state=state,
    )


def worker_cores(job: ElasticJob) -> tuple[float, bool]:
    """Return the cores of one worker node, and whether the user states them: else by OMP_NUM_THREADS, else 1."""
    main = job.spec.replica_specs[names.WORKER].template.main()
    stated = main.resources.cores()
    if stated:
        return stated, True
    threads = next((one.value for one in main.env if one.name == "OMP_NUM_THREADS"), None) or "1"
    return (float(threads) if threads.isascii() and threads.isdigit() and int(threads) else 1.0), False


def worker_memory(job: ElasticJob) -> int:
    """Return the bytes of one worker node, 0 where the user states none."""
    return job.spec.replica_specs[names.WORKER].template.main().resources.memory() or 0
