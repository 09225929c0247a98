"""``convoy brain recommend JOB``: what the Brain would say of a job now, and everything that it weighed."""

from __future__ import annotations

import json
import math
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import typer
from rich.table import Table
from rich.text import Text

from convoy.cli import database, local
from convoy.cli.screen import counted, screen

if TYPE_CHECKING:
    from convoy.brain.plan import JobRecommendation, Loaders, Option


SHOWN = 24
"""Sizes in the table: of more, the present and the chosen one, those with the largest gains, and some of the rest."""


def run(
    job: str,
    *,
    database_url: str | None,
    namespace: str | None,
    as_json: bool = False,
    **given: Any,
) -> None:
    """Print the recommendation; ``given``: what takes the place of the job's own limits and objective.

    Raises:
        InvalidInput, Unusable: the database can't be used, or the limits make no sense.
        NotFound: it knows no such job.
    """
    from convoy.brain.settings import BrainSettings
    from convoy.brain.store.engine import check

    url = database_url or database.for_readers(local.existing_cluster())
    settings = BrainSettings.load(database_url=url)
    check(settings.database(), must_exist=True)  # before the models, which take longer to import than a refusal may
    from convoy.brain.serve.recommend import recommend
    from convoy.core.process import logs

    os.environ.setdefault("CONVOY_LOG_LEVEL", "warning")  # the answer says itself what it rests on
    logs.configure("recommend")
    found = recommend(settings, job, namespace=namespace, **given)
    answer = found.answer
    if as_json:
        typer.echo(json.dumps(document(found.job.name, found.job.namespace, answer, found.why), indent=2))
        return
    console = screen()
    name = f"{found.job.namespace}/{found.job.name}"
    console.print(Text.assemble((name, "bold"), f": {answer.decision} [{answer.reason}]"))
    console.print(Text(answer.message))
    if answer.options:
        console.print(options(answer))
    if answer.roles:
        console.print(roles(answer))
    if answer.loaders is not None:
        console.print(loaders(answer.loaders))
    for note in answer.notes:
        console.print(Text(f"note: {note}"))
    seen, history = counted(answer.observations, "observation"), counted(answer.history_jobs, "job")
    console.print(f"for {answer.objective}, from {seen} of the job and {history} of history")
    for sentence in found.why:
        console.print(Text(f"- {sentence}"))


def options(answer: JobRecommendation) -> Table:
    """Return the sizes that were weighed as a table."""
    served = any(one.ps for one in answer.options)
    price = f"{answer.currency}/H"
    heads = ["WORKERS", *(["SERVERS"] if served else []), "SAMPLES/S", "90 %", "99 %", price]
    shown = Table(*heads, f"{answer.currency}/M SAMPLES", "VERDICT", box=None)
    rows = _foremost(answer.options)
    for one in rows:
        shown.add_row(
            _pods(one.workers, one.worker_cpu),
            *([_pods(one.ps, one.ps_cpu)] if served else []),
            _number(one.predicted),
            f"{_number(one.lower90)}..{_number(one.upper90)}",
            f"{_number(one.lower99)}..{_number(one.upper99)}",
            _number(one.price_per_hour, 3),
            _number(one.price_per_million_samples, 4),
            one.verdict,
        )
    if len(rows) < len(answer.options):
        shown.caption = f"and {len(answer.options) - len(rows)} more sizes: --json shows all"
    return shown


def roles(answer: JobRecommendation) -> Table:
    """Return what each role's pods need as a table."""
    shown = Table("ROLE", "PODS", "CORES", "MEMORY", "WHY", box=None)
    for one in answer.roles:
        memory = [_gib(amount) for amount in (one.memory_before, one.memory)]
        shown.add_row(
            one.role,
            _change(str(one.replicas_before), str(one.replicas)),
            _change(f"{one.cpu_before:g}", f"{one.cpu:g}"),
            _change(*memory),
            f"{one.message} [{one.reason}]" + ("" if one.decided or not one.differs else ", advice"),
        )
    return shown


def loaders(one: Loaders) -> Text:
    """Return how many processes load each worker's data, in a line."""
    advice = "" if one.decided or one.workers == one.before else ", advice"
    return Text(f"loaders {_change(str(one.before), str(one.workers))}: {one.message} [{one.reason}]{advice}")


def document(job: str, namespace: str, answer: JobRecommendation, why: tuple[str, ...]) -> dict[str, Any]:
    """Return the answer as JSON has it; what isn't known is null."""
    return {"job": job, "namespace": namespace, **_known(asdict(answer)), "why": list(why)}


def _known(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _known(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_known(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _foremost(weighed: tuple[Option, ...]) -> list[Option]:
    """Return the options to show, in rising order of size."""
    if len(weighed) <= SHOWN:
        return list(weighed)
    named = [one for one in weighed if one.verdict.startswith("chosen") or one.verdict == "present size"]
    others = [one for one in weighed if one not in named]
    others.sort(key=lambda one: -one.gain if math.isfinite(one.gain) else -one.predicted)
    kept = {id(one) for one in (*named, *others[: SHOWN // 2])}
    rest, room = [one for one in weighed if id(one) not in kept], max(0, SHOWN - len(kept))
    kept |= {id(rest[len(rest) * place // room]) for place in range(room)}
    return [one for one in weighed if id(one) in kept]


def _pods(count: int, cores: float) -> str:
    return f"{count} of {cores:g} cores" if cores else str(count)


def _change(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _gib(amount: int) -> str:
    return f"{amount / 2**30:.3g} GiB" if amount else "-"


def _number(value: float, digits: int = 0) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"
