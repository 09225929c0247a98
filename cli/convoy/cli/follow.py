"""Follow a job to its end: a line for each thing that happens, and its state in between."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from rich.text import Text

from convoy.cli import local, printed
from convoy.cli.explain import change
from convoy.cli.screen import counted, screen
from convoy.core.api import names
from convoy.core.api.errors import JobFailed, NotFound
from convoy.core.api.job import ElasticJob
from convoy.core.api.job_status import Phase
from convoy.core.api.plan import PlanPhase, ScalePlan
from convoy.core.api.pod import Pod, PodPhase
from convoy.core.cluster.port import Cluster, Kind

_PERIOD = 0.25
_BETWEEN_LINES = 5.0  # seconds between two lines of progress where the output isn't a terminal


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a follower sees of a job at one moment."""

    job: ElasticJob
    plans: dict[str, ScalePlan] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)

    @classmethod
    def take(cls, cluster: Cluster, namespace: str, name: str) -> Snapshot:
        """Read the job, its plans and its pods.

        Raises:
            NotFound: the job is gone.
        """
        job = ElasticJob.from_manifest(cluster.get(Kind.ELASTIC_JOB, namespace, name))
        plans = map(ScalePlan.from_manifest, cluster.list(Kind.SCALE_PLAN, namespace).items)
        pods = map(Pod.from_manifest, cluster.list(Kind.POD, namespace, {names.LABEL_JOB: name}).items)
        return cls(
            job,
            {plan.metadata.name: plan for plan in plans if plan.spec.owner_job == name},
            {pod.name: pod for pod in pods},
        )


def happened(before: Snapshot | None, after: Snapshot) -> list[str]:
    """Return a sentence for each thing that happened between two moments. Pure."""
    lines: list[str] = []
    old = before.job.status if before else None
    new = after.job.status
    if new.phase is not None and (old is None or old.phase != new.phase):
        lines.append(f"job is {new.phase}")
    if old and new.master.epoch > old.master.epoch and old.master.epoch > 0:
        lines.append(f"master replaced: {new.master.pod} (epoch {new.master.epoch}); the workers train on")
    for name, plan in after.plans.items():
        was = before.plans.get(name) if before else None
        why = plan.spec.explanation
        if was is None:
            reason = f" [{why.reason}] {why.message}" if why else ""
            lines.append(f"plan {name}: {change(plan)}{reason}")
        if plan.status.phase is not PlanPhase.PENDING and (was is None or was.status.phase is PlanPhase.PENDING):
            lines.append(f"plan {name} {plan.status.phase}")
    for name, pod in after.pods.items():
        earlier = before.pods.get(name) if before else None
        if pod.alive and pod.unplaced and (earlier is None or not earlier.unplaced):
            lines.append(f"pod {name} waits: {pod.unplaced}")
        if pod.phase is PodPhase.FAILED and (earlier is None or earlier.phase is not PodPhase.FAILED):
            code = "" if pod.exit_code is None else f" with exit code {pod.exit_code}"
            lines.append(f"pod {name} ended{code} {pod.reason}".rstrip())
    training, trained = new.training, old.training if old else None
    if trained and training.restarts and training.restarts > (trained.restarts or 0):
        lines.append(f"workers restarted in place ({training.restarts} so far)")
    return lines


def progress(job: ElasticJob) -> str:
    """Return the job's state in one line."""
    training = job.status.training
    parts = [str(job.status.phase or Phase.CREATED)]
    if training.nodes:
        parts.append(counted(training.nodes, "node"))
    if training.step is not None:
        parts.append(f"step {training.step}")
    if training.samples_per_second:
        parts.append(f"{training.samples_per_second:.0f} samples/s")
    return ", ".join(parts)


def follow(cluster: Cluster, namespace: str, name: str, uid: str, operator: local.Operator) -> None:
    """Print what happens to the job until it is over; keep the operator alive meanwhile.

    Raises:
        JobFailed: it ended in failure, or was deleted.
    """
    console = screen()
    start, said = time.monotonic(), 0.0
    before: Snapshot | None = None
    with console.status("submitted", spinner="dots") if console.is_terminal else _Nothing() as status:
        while True:
            operator.ensure()
            try:
                now = Snapshot.take(cluster, namespace, name)
            except NotFound:
                raise JobFailed(f"{namespace}/{name} was deleted") from None
            if now.job.metadata.uid != uid:
                raise JobFailed(f"{namespace}/{name} was deleted, and another job has its name")
            elapsed = time.monotonic() - start
            for line in happened(before, now):
                console.print(f"{elapsed:7.1f}s  {line}", soft_wrap=True)
            if console.is_terminal:
                status.update(Text(progress(now.job)))
            elif elapsed - said >= _BETWEEN_LINES:
                said = elapsed
                console.print(f"{elapsed:7.1f}s  {progress(now.job)}", soft_wrap=True)
            phase = now.job.status.phase
            if phase is not None and phase.is_terminal:
                break
            before = now
            time.sleep(_PERIOD)
    logs = printed.files(now.job)
    if phase is Phase.FAILED:
        raise JobFailed(failure(now, logs))
    console.print(printed.listed(logs), soft_wrap=True)


def failure(end: Snapshot, logs: list[Path]) -> str:
    """Return why a job failed, in its master's words, and where to read on: what explains it, its pods' logs."""
    training = end.job.status.training
    namespace, name = end.job.key()
    why = ": ".join(part for part in (training.reason, training.message) if part)
    if not why:
        failed = [one for one in end.job.status.conditions if one.type == "Failed" and one.status == "True"]
        why = "; ".join(f"{one.reason}: {one.message}" for one in failed)
    option = "" if namespace == "default" else f" --namespace {namespace}"
    return (
        f"{namespace}/{name} failed: {why or 'no reason was given'}\n"
        f"`convoy explain {name}{option}` says how it came to it; {printed.listed(logs)}"
    )


class _Nothing:
    """A status line where the output isn't a terminal."""

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def update(self, _text: Text) -> None:
        """Show nothing."""
