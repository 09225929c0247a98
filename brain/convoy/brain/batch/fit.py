"""Fit a model to the store, test it beside the champion, register it, and promote it if it is better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.batch.recipes import Champion, Recipe, recipe_of
from convoy.brain.features.schema import schema_of
from convoy.brain.models.registry import Facts, ModelFile, Promotion
from convoy.brain.models.registry.facts import frame_digest
from convoy.brain.models.registry.kinds import kind_of
from convoy.brain.store.model_files import Registry, Version
from convoy.core.api.envelope import VERSION
from convoy.core.api.errors import NotFound
from convoy.core.process.clock import Clock

Progress = Callable[[str], None]


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
        NotFound: the store holds nothing to fit it to.
        Unusable: the folder can't be written.
        Unavailable: the database can't be reached.
    """
    recipe, kind = recipe_of(name), kind_of(name)
    now = datetime.fromtimestamp(clock.now(), UTC)
    progress("reading the store")
    frame = recipe.read(engine, now)
    if frame.empty:
        raise NotFound(
            f"model {name!r}: the store holds nothing to fit it to: {recipe.nothing}", reason="NothingToFit"
        )
    progress(f"fitting {len(frame):,} rows")
    begun = clock.monotonic()
    model: Any = cast(Any, kind.model())().fit(frame)
    seconds = clock.monotonic() - begun
    progress("testing it beside its rivals")
    schema = schema_of(recipe.layout)
    champion: Champion = registry.load(name, kind.model().restored, schema_hash=schema.hash)
    facts = _facts(name, frame, recipe, now, seconds, contest=recipe.contest(frame, model, champion))
    version = registry.register(ModelFile(facts, model.state()))
    decision = None
    if promote:
        decision = registry.consider(version, now, fresh=fresh)
    return Fitted(registry.version(name, version.number), decision)


def _facts(name: str, frame: pd.DataFrame, recipe: Recipe, now: datetime, seconds: float, **known: Any) -> Facts:
    moments = frame[recipe.moment].dropna()
    return Facts(
        name=name,
        code_version=VERSION,
        schema=schema_of(recipe.layout),
        created_at=now,
        trained_from=None if moments.empty else moments.min().to_pydatetime(),
        trained_until=None if moments.empty else moments.max().to_pydatetime(),
        rows=len(frame),
        jobs=int(frame[list(recipe.jobs)].drop_duplicates().shape[0]),
        fitted_to=frame_digest(frame),
        seconds=seconds,
        **known,
    )
