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
Progress = Callable[[str], None]
Test = Callable[[Any, str, Progress], BackTest]
"""Tests a model, named as in its back-test, and tells each step."""
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
    contest: Callable[[pd.DataFrame, Restorable, Champion, Progress], Contest]
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


def _contest(test: Test, model: Any, baseline: tuple[Any, str], champion: Champion, tell: Progress) -> Contest:
    """Test a model, the baseline and the champion, one after the other."""

    def tested(what: str, asked: Any, of: str) -> BackTest:
        tell(f"testing {what}")
        return test(asked, of, lambda step: tell(f"testing {what}: {step}"))

    return Contest(
        tested("it", model, "candidate"),
        tested("the baseline", *baseline),
        None if champion is None else tested("the champion", champion.model, champion.version.digest),
    )


def _kind(model: Any) -> Any:
    """Return the class of a model: of which the method is tested, not what one learned."""
    return model if isinstance(model, type) else type(model)


def _speeds(engine: Engine, now: datetime) -> pd.DataFrame:
    return frames.history(engine, over_since=now - SILENT)


def _speed_contest(history: pd.DataFrame, model: Restorable, champion: Champion, tell: Progress) -> Contest:
    rows = asked_rows(history)
    naive: Any = cast(Any, kind_of("throughput").model())().fit(history.iloc[:0])
    return _contest(
        lambda asked, of, step: speed_trial(asked, rows, of, step), model, (naive, NO_HISTORY), champion, tell
    )


def _hours(engine: Engine, now: datetime) -> pd.DataFrame:
    return frames.cluster_hours(engine, until=now.replace(minute=0, second=0, microsecond=0))


def _demand_contest(series: pd.DataFrame, model: Restorable, champion: Champion, tell: Progress) -> Contest:
    from convoy.brain.models.demand import SeasonalNaive

    return _contest(
        lambda asked, of, _: demand_trial(_kind(asked), series, of), model, (SeasonalNaive, LAST_WEEK), champion, tell
    )


def _usage(engine: Engine, now: datetime) -> pd.DataFrame:
    return frames.memory_usage(engine, until=now)


def _memory_contest(usage: pd.DataFrame, model: Restorable, champion: Champion, tell: Progress) -> Contest:
    from convoy.brain.models.memory import DlroverRule

    return _contest(
        lambda asked, of, _: memory_trial(_kind(asked), usage, of), model, (DlroverRule, DLROVER), champion, tell
    )


def _jobs(engine: Engine, now: datetime) -> pd.DataFrame:
    return startup_jobs(engine, until=now)


def _startup_contest(jobs: pd.DataFrame, model: Restorable, champion: Champion, tell: Progress) -> Contest:
    from convoy.brain.models.startup import DlroverRules

    return _contest(
        lambda asked, of, _: startup_trial(_kind(asked), jobs, of), model, (DlroverRules, DLROVER), champion, tell
    )


def _noise(engine: Engine, now: datetime) -> pd.DataFrame:
    return frames.gradient_noise(engine, until=now)


def _efficiency_contest(noise: pd.DataFrame, model: Restorable, champion: Champion, tell: Progress) -> Contest:
    rows = efficiency.asked_rows(noise)

    def test(asked: Any, of: str, _: Progress) -> BackTest:
        return efficiency.efficiency_trial(_kind(asked), rows, of, learns=of != NO_HISTORY)

    return _contest(test, model, (model, NO_HISTORY), champion, tell)


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
