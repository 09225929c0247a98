"""``convoy explain JOB``: why a job is as it is, from its objects and from what the Brain's store knows of it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from convoy.cli import database, local, printed, told
from convoy.cli.jobs import age
from convoy.cli.screen import counted, screen
from convoy.core.api import names
from convoy.core.api.errors import NotFound
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Condition
from convoy.core.api.plan import Explanation, ScalePlan
from convoy.core.api.pod import Pod
from convoy.core.cluster.port import Kind


def run(name: str, *, namespace: str) -> None:
    """Print the explanation.

    Raises:
        NotFound: no such job.
    """
    cluster = local.existing_cluster()
    if cluster is None:
        raise NotFound(f"no job {namespace}/{name}: {local.directory()} holds no cluster; see `convoy jobs --help`")
    try:
        job = ElasticJob.from_manifest(cluster.get(Kind.ELASTIC_JOB, namespace, name))
    except NotFound:
        there = [
            (item["metadata"]["namespace"], item["metadata"]["name"]) for item in cluster.list(Kind.ELASTIC_JOB).items
        ]
        raise NotFound(f"no job {namespace}/{name}: {elsewhere(namespace, name, there)}") from None
    plans = [ScalePlan.from_manifest(item) for item in cluster.list(Kind.SCALE_PLAN, namespace).items]
    pods = cluster.list(Kind.POD, namespace, {names.LABEL_JOB: name}).items
    screen().print(
        explanation(
            job,
            [plan for plan in plans if plan.spec.owner_job == name],
            [Pod.from_manifest(item) for item in pods],
            told.read(job.metadata.uid, database.for_readers(cluster)),
            printed.files(job),
            datetime.now(UTC),
        ),
        crop=False,
    )


def elsewhere(namespace: str, name: str, jobs: list[tuple[str, str]]) -> str:
    """Return what is there instead of a job that isn't: one of its name elsewhere, else the namespace's.

    ``jobs``: namespace and name of each that is there.
    """
    others = sorted(where for where, what in jobs if what == name)
    if others:
        options = " or ".join(f"--namespace {where}" for where in others)
        return f"one of that name is in namespace {' and in '.join(others)}; add {options}"
    here = sorted(what for where, what in jobs if where == namespace)
    if not here:
        return "there are no jobs in that namespace"
    return f"{'there is' if len(here) == 1 else 'there are'} {', '.join(here)} in that namespace"


def explanation(
    job: ElasticJob, plans: list[ScalePlan], pods: list[Pod], known: told.Told, logs: list[Path], now: datetime
) -> RenderableType:
    """Return everything that is known about how a job came to be as it is."""
    return Group(
        *_head(job, pods, now),
        *_section("Conditions", _conditions(job.status.conditions, now) if job.status.conditions else None),
        *_section("Plans, first to last", _plans(plans, known.outcomes, now) if plans else None),
        *_section("The Brain's last answer", _answer(known, now)),
        *_section("What happened last", _events(known, now) if known.events else None),
        *_section("Pods", _pods(pods) if pods else None),
        *_section("What its pods printed", _logs(logs) if logs else None),
    )


def _head(job: ElasticJob, pods: list[Pod], now: datetime) -> Iterable[RenderableType]:
    training, status = job.status.training, job.status
    yield Text(f"{job.metadata.namespace}/{job.metadata.name}", style="bold")
    worker = job.spec.replica_specs[names.WORKER]
    most = worker.range().most
    rows = Table.grid(padding=(0, 2))
    rows.add_column(no_wrap=True)
    rows.add_column(overflow="fold")
    created = age(job.metadata.creation_timestamp, now)
    rows.add_row("phase", f"{status.phase or 'Created'} (submitted {created} ago)")
    if training.reason or training.message:
        rows.add_row("because", ": ".join(part for part in (training.reason, training.message) if part))
    for pod in pods:
        if pod.alive and pod.unplaced:
            rows.add_row("waits", f"{pod.name}: {pod.unplaced}")
    rows.add_row(
        "sized by",
        {"manual": "you", "single-job": "you (single-job keeps its size)", "cluster": "the Brain"}[job.spec.mode],
    )
    asked = "the Brain's choice" if worker.replicas is None else str(worker.replicas)
    rows.add_row("nodes", f"{training.nodes if training.nodes is not None else '-'} (asked {asked}, at most {most})")
    if training.step is not None:
        speed = f", {training.samples_per_second:.0f} samples/s" if training.samples_per_second else ""
        rows.add_row("training", f"step {training.step}{speed}")
    restarts, replaced = counted(training.restarts or 0, "restart"), counted(training.relaunches or 0, "node")
    rows.add_row("faults", f"{restarts} in place, {replaced} replaced")
    rows.add_row("master", f"{status.master.pod or '-'} (epoch {status.master.epoch})")
    yield rows


def _section(title: str, content: RenderableType | None) -> Iterable[RenderableType]:
    if content is not None:
        yield Text(f"\n{title}", style="bold")
        yield content


def _conditions(conditions: list[Condition], now: datetime) -> Group:
    lines: list[RenderableType] = []
    for one in conditions:
        since = age(one.last_transition_time, now)
        lines.append(Text.assemble((f" {one.type}", "bold"), f" is {one.status}, {one.reason}, for {since}"))
        if one.message:
            lines.append(Padding(Text(one.message), (0, 0, 0, 4), expand=False))
    return Group(*lines)


def _plans(plans: list[ScalePlan], outcomes: dict[str, str], now: datetime) -> Group:
    lines: list[RenderableType] = []
    for plan in sorted(plans, key=lambda one: one.metadata.creation_timestamp or now):
        since = age(plan.metadata.creation_timestamp, now)
        head = f" {plan.status.phase}, {since} ago: {change(plan)}"
        lines.append(Text.assemble((f" {plan.metadata.name}", "bold"), head))
        why = plan.spec.explanation
        if why is not None:
            lines.append(
                Padding(
                    Text(": ".join(part for part in (why.reason, why.message) if part)), (0, 0, 0, 4), expand=False
                )
            )
        for numbers in (_predicted(why), outcomes.get(plan.metadata.name)):
            if numbers:
                lines.append(Padding(Text(numbers), (0, 0, 0, 4), expand=False))
    return Group(*lines)


def _predicted(why: Explanation | None) -> str:
    if why is None or why.predicted_samples_per_second is None:
        return ""
    text = f"predicted {why.predicted_samples_per_second:.0f} samples/s"
    if why.predicted_lower is not None and why.predicted_upper is not None:
        text += f" (90 %: {why.predicted_lower:.0f} to {why.predicted_upper:.0f})"
    return text if why.price_per_hour is None else f"{text}, {why.price_per_hour:.3f} an hour"


def _answer(known: told.Told, now: datetime) -> RenderableType | None:
    if known.problem:
        return Text(f" its store can't be read: {known.problem}")
    if known.answer is None:
        return None
    one = known.answer
    head = Text.assemble((f" {one.decision}", "bold"), f" [{one.reason}], {age(one.at, now)} ago")
    why = [Text(f"- {sentence}") for sentence in one.why]
    return Group(head, *(Padding(text, (0, 0, 0, 4), expand=False) for text in (Text(one.message), *why)))


def _events(known: told.Told, now: datetime) -> Table:
    shown = Table(box=None)
    for title in ("AGE", "REASON", "MESSAGE"):
        shown.add_column(title, overflow="fold")
    for one in known.events:
        shown.add_row(age(one.at, now), one.reason, one.message)
    return shown


def change(plan: ScalePlan) -> str:
    """Return what a plan changes, in few words: ``worker: 2 nodes, +1``."""
    parts = [
        f"{role}: {counted(wanted.replicas, 'node')}"
        for role, wanted in plan.spec.replica_resource_specs.items()
        if wanted.replicas is not None
    ]
    if plan.spec.create_pods:
        parts.append(f"+{len(plan.spec.create_pods)}")
    if plan.spec.remove_pods:
        parts.append(f"-{len(plan.spec.remove_pods)}")
    return ", ".join(parts) or "nothing"


def _pods(pods: list[Pod]) -> Table:
    shown = Table(box=None)
    shown.add_column("POD", min_width=max(len(pod.name) for pod in pods))
    for title in ("ROLE", "RANK", "PHASE", "EXIT"):
        shown.add_column(title, no_wrap=True)
    shown.add_column("REASON", overflow="fold")
    for pod in sorted(pods, key=lambda one: (one.role, one.id)):
        phase = "Ending" if pod.deleting and not pod.phase.is_over else str(pod.phase)
        exit_code = "-" if pod.exit_code is None else str(pod.exit_code)
        shown.add_row(pod.name, pod.role, str(pod.rank), phase, exit_code, pod.reason or pod.message or pod.unplaced)
    return shown


def _logs(logs: list[Path]) -> Group:
    return Group(*(Text(f" {log}", no_wrap=True, overflow="ignore") for log in logs))
