"""What a job is, from its ElasticJob: the facts that decisions go by, and its description for the Brain. Pure."""

from __future__ import annotations

from convoy.core.api import admission, names, resources
from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob, Strategy
from convoy.core.api.resources import Room
from convoy.core.api.template import template_key
from convoy.core.api.v1 import brain_pb2
from convoy.core.api.wishes import readable
from convoy.master.decide.state import Facts


def facts(job: ElasticJob, *, brain: bool) -> Facts:
    """Return what decisions go by; ``brain``: whether one is configured."""
    metadata = job.metadata
    try:
        admission.check_supported(job)
        refusal = ""
    except InvalidManifest as error:
        refusal = str(error)
    return Facts(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        worker=job.spec.replica_specs[names.WORKER],
        mode=job.spec.mode,
        brain=brain,
        pinned=metadata.annotations.get(names.ANNOTATION_PIN, "").lower() == "true",
        refusal=refusal,
        most_allowed=admission.workers_allowed(job),
        total_samples=readable(metadata.annotations).total_samples,
    )


def description(job: ElasticJob, state: str) -> brain_pb2.JobDescription:
    """Return the job's description for the Brain."""
    main, labels = job.spec.replica_specs[names.WORKER].template.main(), job.metadata.labels
    return brain_pb2.JobDescription(
        uid=job.metadata.uid,
        name=job.metadata.name,
        namespace=job.metadata.namespace,
        template=template_key(main),
        image=main.image or "",
        user=labels.get(names.LABEL_USER, ""),
        model=labels.get(names.LABEL_MODEL, ""),
        dataset=labels.get(names.LABEL_DATASET, ""),
        strategy=job.spec.distribution_strategy.short,
        mode="sync" if job.spec.distribution_strategy is Strategy.ALLREDUCE else "",
        optimize_mode=job.spec.mode.value,
        state=state,
    )


def worker(job: ElasticJob) -> tuple[Room, bool]:
    """Return what one worker node takes, and whether the user states its cores: else by OMP_NUM_THREADS, else 1."""
    template = job.spec.replica_specs[names.WORKER].template
    asked = resources.requested(template.spec.to_json())
    if asked.cores:
        return asked, True
    threads = next((one.value for one in template.main().env if one.name == "OMP_NUM_THREADS"), None) or "1"
    cores = float(threads) if threads.isascii() and threads.isdigit() and int(threads) else 1.0
    return Room(cores, asked.memory), False
