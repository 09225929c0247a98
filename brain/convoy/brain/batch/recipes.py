"""How each kind of model is made of the store: what it is fitted to, and how it is tested beside its rivals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, cast

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.features import frames
from convoy.brain.features.gradients import GRADIENT_NOISE
from convoy.brain.features.layout import Layout
from convoy.brain.features.memory import MEMORY_USAGE
from convoy.brain.features.observations import OBSERVATIONS
from convoy.brain.features.startup import STARTUP_JOBS, startup_jobs
from convoy.brain.features.utilization import CLUSTER_HOURS
from convoy.brain.models.registry import BackTest, Contest
from convoy.brain.models.registry import efficiency_trial as efficiency
from convoy.brain.models.registry.demand_trial import demand_trial
from convoy.brain.models.registry.kinds import Restorable, kind_of
from convoy.brain.models.registry.memory_trial import memory_trial
from convoy.brain.models.registry.speed_trial import asked_rows, speed_trial
from convoy.brain.models.registry.startup_trial import startup_trial
from convoy.brain.store.model_files import Loaded
from convoy.core.api.errors import InvalidInput

SILENT = timedelta(seconds=600)
"""A job of which nothing was reported for that long is over, even if nobody said so."""

Champion = Loaded[Any] | None
NO_HISTORY = "the model without history"
LAST_WEEK = "last week's same hour"
DLROVER = "DLRover's rules"


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a kind of model is made.

    Attributes:
        layout: of the frame that it is fitted to.
        read: the frame, as it is at a moment.
        contest: tests a fitted model on the frame beside the baseline and the champion.
        jobs: columns that tell jobs apart.
        moment: column with the rows' time.
        nothing: what to do where the store holds nothing to fit to.
    """

    layout: Layout
    read: Callable[[Engine, datetime], pd.DataFrame]
    contest: Callable[[pd.DataFrame, Restorable, Champion], Contest]
    jobs: tuple[str, ...]
    moment: str
    nothing: str


def recipe_of(name: str) -> Recipe:
    """Return the recipe of a kind of model.

    Raises:
        InvalidInput: there is no such kind, or it isn't made of the store.
    """
    kind_of(name)
    if name not in RECIPES:
        raise InvalidInput(
            f"model {name!r} isn't fitted from the store; expected one of {', '.join(RECIPES)}", reason="NoRecipe"
        )
    return RECIPES[name]


def _speeds(engine: Engine, now: datetime) -> pd.DataFrame:
    return frames.history(engine, over_since=now - SILENT)


def _speed_contest(history: pd.DataFrame, model: Restorable, champion: Champion) -> Contest:
    rows = asked_rows(history)
    naive: Any = cast(Any, kind_of("throughput").model())().fit(history.iloc[:0])
    return Contest(
        speed_trial(cast(Any, model), rows, "candidate"),
        speed_trial(naive, rows, NO_HISTORY),
        None if champion is None else speed_trial(champion.model, rows, champion.version.digest),
    )


def _hours(engine: Engine, now: datetime) -> pd.DataFrame:
    return frames.cluster_hours(engine, until=now.replace(minute=0, second=0, microsecond=0))


def _demand_contest(series: pd.DataFrame, model: Restorable, champion: Champion) -> Contest:
    from convoy.brain.models.demand import SeasonalNaive

    return Contest(
        demand_trial(cast(Any, type(model)), series, "candidate"),
        demand_trial(SeasonalNaive, series, LAST_WEEK),
        None if champion is None else demand_trial(type(champion.model), series, champion.version.digest),
    )


def _usage(engine: Engine, now: datetime) -> pd.DataFrame:
    return frames.memory_usage(engine, until=now)


def _memory_contest(usage: pd.DataFrame, model: Restorable, champion: Champion) -> Contest:
    from convoy.brain.models.memory import DlroverRule

    return Contest(
        memory_trial(cast(Any, type(model)), usage, "candidate"),
        memory_trial(cast(Any, DlroverRule), usage, DLROVER),
        None if champion is None else memory_trial(type(champion.model), usage, champion.version.digest),
    )


def _jobs(engine: Engine, now: datetime) -> pd.DataFrame:
    return startup_jobs(engine, until=now)


def _startup_contest(jobs: pd.DataFrame, model: Restorable, champion: Champion) -> Contest:
    from convoy.brain.models.startup import DlroverRules

    return Contest(
        startup_trial(cast(Any, type(model)), jobs, "candidate"),
        startup_trial(DlroverRules, jobs, DLROVER),
        None if champion is None else startup_trial(type(champion.model), jobs, champion.version.digest),
    )


def _noise(engine: Engine, now: datetime) -> pd.DataFrame:
    return frames.gradient_noise(engine, until=now)


def _efficiency_contest(noise: pd.DataFrame, model: Restorable, champion: Champion) -> Contest:
    rows = efficiency.asked_rows(noise)

    def tested(kind: object, of: str, *, learns: bool = True) -> BackTest:
        return efficiency.efficiency_trial(cast(Any, kind), rows, of, learns=learns)

    return Contest(
        tested(type(model), "candidate"),
        tested(type(model), NO_HISTORY, learns=False),
        None if champion is None else tested(type(champion.model), champion.version.digest),
    )


RECIPES: Mapping[str, Recipe] = {
    "throughput": Recipe(
        OBSERVATIONS,
        _speeds,
        _speed_contest,
        ("job",),
        "observed_at",
        "no job is over and nothing was imported; import history with `convoy brain import`",
    ),
    "demand": Recipe(
        CLUSTER_HOURS,
        _hours,
        _demand_contest,
        ("cluster", "resource"),
        "time",
        "no load of machines is known; collect it with `convoy brain collect`",
    ),
    "memory": Recipe(
        MEMORY_USAGE,
        _usage,
        _memory_contest,
        ("container",),
        "time",
        "no load of pods is known; `convoy brain serve` keeps what masters report, and `convoy brain collect` what "
        "Prometheus measured",
    ),
    "startup": Recipe(
        STARTUP_JOBS,
        _jobs,
        _startup_contest,
        ("job",),
        "completed_at",
        "no job has succeeded yet; `convoy brain serve` keeps what masters report of them",
    ),
    "efficiency": Recipe(
        GRADIENT_NOISE,
        _noise,
        _efficiency_contest,
        ("job",),
        "observed_at",
        "no job told the noise of its gradients; ElasticTrainer(gradient_noise=True) estimates it, and `convoy brain "
        "serve` keeps what masters report of it",
    ),
}
"""Of those kinds that the store holds the history of."""
