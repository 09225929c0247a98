"""``convoy brain recommend JOB``: what the Brain would say of a job now, and everything that it weighed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from convoy.cli import database, local
from convoy.cli.screen import counted, screen

if TYPE_CHECKING:
    from convoy.brain.plan import JobRecommendation


def run(
    job: str,
    *,
    database_url: str | None,
    namespace: str | None,
    max_workers: int | None,
    horizon_seconds: float | None,
) -> None:
    """Print the recommendation.

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

    found = recommend(settings, job, namespace=namespace, max_workers=max_workers, horizon_seconds=horizon_seconds)
    answer = found.answer
    console = screen()
    name = f"{found.job.namespace}/{found.job.name}"
    console.print(Text.assemble((name, "bold"), f": {answer.decision} [{answer.reason}]"))
    console.print(answer.message)
    if answer.options:
        console.print(options(answer))
    seen, history = counted(answer.observations, "observation"), counted(answer.history_jobs, "job")
    console.print(f"from {seen} of the job and {history} of history")
    for sentence in found.why:
        console.print(Text(f"- {sentence}"))


def options(answer: JobRecommendation) -> Table:
    """Return the sizes that were weighed as a table."""
    price = f"{answer.currency}/H"
    shown = Table("WORKERS", "SAMPLES/S", "90 %", "99 %", price, f"{answer.currency}/M SAMPLES", "VERDICT", box=None)
    for one in answer.options:
        shown.add_row(
            str(one.workers),
            _number(one.predicted),
            f"{_number(one.lower90)}..{_number(one.upper90)}",
            f"{_number(one.lower99)}..{_number(one.upper99)}",
            _number(one.price_per_hour, 3),
            _number(one.price_per_million_samples, 4),
            one.verdict,
        )
    return shown


def _number(value: float, digits: int = 0) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}f}"
