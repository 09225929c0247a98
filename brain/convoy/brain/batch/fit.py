"""Fit a model to the store, test it beside the champion, register it, and promote it if it is better.

What is fitted is ordered (``read``), made (``make``: no store, so that it may happen anywhere), and taken into the
registry.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.batch.recipes import Champion, Progress, recipe_of
from convoy.brain.features.schema import schema_of
from convoy.brain.models.registry import Facts, ModelFile, Promotion
from convoy.brain.models.registry.facts import frame_digest
from convoy.brain.models.registry.kinds import kind_of
from convoy.brain.store.model_files import Registry, Version
from convoy.core.api.envelope import VERSION
from convoy.core.api.errors import NotFound
from convoy.core.process.clock import Clock


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be fitted.

    Attributes:
        name: of the model.
        frame: that it is fitted to.
        champion: beside which it is tested; None: there is none whose file can be used.
        at: the moment of the fit (UTC): no row is of a later one.
    """

    name: str
    frame: pd.DataFrame
    champion: Champion
    at: datetime


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit came to.

    Attributes:
        version: that was registered, as it stands after the decision.
        decision: whether it became the champion; None: that wasn't asked.
    """

    version: Version
    decision: Promotion | None


def fit(
    engine: Engine,
    registry: Registry,
    name: str,
    clock: Clock,
    *,
    fresh: timedelta,
    promote: bool = True,
    progress: Progress = lambda step: None,
) -> Fitted:
    """Fit a kind of model to what the store holds and register it as a candidate.

    Args:
        engine: of the store.
        registry: of the store.
        name: of the model.
        clock: the time.
        fresh: a champion that was fitted longer ago gives way to one that is no worse.
        promote: decide at once whether it becomes the champion.
        progress: is told each step.

    Raises:
        InvalidInput: no such model, or none that is made of the store.
        NotFound: the store holds nothing to fit it to, or this version has no such model that can be kept.
        Unusable: the folder can't be written.
        Unavailable: the database can't be reached.
    """
    now = datetime.fromtimestamp(clock.now(), UTC)
    progress("reading the store")
    order = read(engine, registry, name, now)
    version = registry.register(make(order, clock, progress))
    decision = None
    if promote:
        decision = registry.consider(version, now, fresh=fresh)
    return Fitted(registry.version(name, version.number), decision)


def read(engine: Engine, registry: Registry, name: str, now: datetime) -> Order:
    """Return what a kind of model is to be fitted to, and tested beside.

    Raises:
        InvalidInput: no such model, or none that is made of the store.
        NotFound: the store holds nothing to fit it to, or this version has no such model that can be kept.
        Unavailable: the database can't be reached.
    """
    recipe, kind = recipe_of(name), kind_of(name).model()
    frame = recipe.read(engine, now)
    if frame.empty:
        raise NotFound(
            f"model {name!r}: the store holds nothing to fit it to: {recipe.nothing}", reason="NothingToFit"
        )
    champion: Champion = registry.load(name, kind.restored, schema_hash=schema_of(recipe.layout).hash)
    return Order(name, frame, champion, now)


def make(order: Order, clock: Clock, progress: Progress = lambda step: None) -> ModelFile:
    """Fit the model and test it beside its rivals; ``clock`` measures how long the fit takes."""
    recipe, frame = recipe_of(order.name), order.frame
    kind: Any = cast(Any, kind_of(order.name).model())
    progress(f"fitting {len(frame):,} rows")
    begun = clock.monotonic()
    model = kind().fit(frame)
    seconds = clock.monotonic() - begun
    contest = recipe.contest(frame, model, order.champion, progress)
    moments = frame[recipe.moment].dropna()
    facts = Facts(
        name=order.name,
        code_version=VERSION,
        schema=schema_of(recipe.layout),
        created_at=order.at,
        trained_from=None if moments.empty else moments.min().to_pydatetime(),
        trained_until=None if moments.empty else moments.max().to_pydatetime(),
        rows=len(frame),
        jobs=int(frame[list(recipe.jobs)].drop_duplicates().shape[0]),
        fitted_to=frame_digest(frame),
        seconds=seconds,
        contest=contest,
    )
    return ModelFile(facts, model.state())
