"""What ``convoy brain models`` and ``convoy brain fit`` print of the registry."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text
from sqlalchemy.engine import Engine

from convoy.brain.settings import BrainSettings
from convoy.brain.store.engine import check, open_engine
from convoy.brain.store.migrate import require_schema
from convoy.brain.store.model_files import Registry, Stage, Version
from convoy.cli import database, local
from convoy.cli.screen import Working, counted, screen
from convoy.core.api.errors import NotFound
from convoy.core.process import logs
from convoy.core.process.files import write_atomically

_HEADS = ("MODEL", "VERSION", "STAGE", "FITTED", "FROM", "UNTIL", "ROWS", "JOBS", "ERROR", "COVERAGE", "DECISION")


def listed(database_url: str | None, model: str | None, *, as_json: bool) -> None:
    """Print the versions."""
    with _registry(database_url) as (registry, _, _):
        found = registry.versions(_known(model))
    if as_json:
        _print_json([_plain(version) for version in found])
        return
    if not found:
        screen().print("there are no models; fit one with `convoy brain fit`")
        return
    shown = Table(*_HEADS, box=None)
    for version in found:
        shown.add_row(
            version.name,
            str(version.number),
            version.stage.value,
            _moment(version.created_at),
            _moment(version.trained_from),
            _moment(version.trained_until),
            f"{version.rows:,}",
            f"{version.jobs:,}",
            _interval(version.score.get("error"), ".1%"),
            _interval(version.score.get("coverage"), ".0%"),
            version.decision.get("reason", "-"),
        )
    screen(wide=True).print(shown)


def shown(database_url: str | None, model: str, number: int | None, *, as_json: bool) -> None:
    """Print one version."""
    with _registry(database_url) as (registry, _, _):
        version = registry.version(_name(model), number)
        problem = next((why for one, why in registry.verify(version.name) if one.number == version.number), "")
    if as_json:
        _print_json(_plain(version) | {"problem": problem})
        return
    console = screen()
    console.print(Text.assemble((version.shown, "bold"), f": {version.stage.value}"))
    lines = {
        "fitted": f"{_moment(version.created_at)} by Convoy {version.code_version}, in {version.seconds:.3g} s",
        "to": f"{version.rows:,} rows of {counted(version.jobs, 'job')}, "
        f"{_moment(version.trained_from)} to {_moment(version.trained_until)}",
        "error": _interval(version.score.get("error"), ".1%"),
        "coverage": _interval(version.score.get("coverage"), ".0%"),
        "file": f"{registry.folder.path / version.file}" if version.file else "removed, newer ones are there",
        "problem": problem or "none",
        "columns": f"schema {version.schema_hash[:12]}",
    }
    if version.feedback:
        lines["in use"] = _in_use(version.feedback)
    if version.decision:
        lines["decision"] = (
            f"{version.decision['verdict']} [{version.decision['reason']}]: {version.decision['message']}"
        )
    for head, text in lines.items():
        console.print(f"  {head:<9} {text}")


def card_of(database_url: str | None, model: str, number: int | None, output: Path | None) -> None:
    """Print the card of one version, or write it to a file."""
    from convoy.brain.models.registry.card import card

    with _registry(database_url) as (registry, _, _):
        version = registry.version(_name(model), number)
        text = card(registry.read(version).facts, version=version.number, stage=version.stage.value)
    if output is None:
        sys.stdout.write(text)
    else:
        write_atomically(output, text.encode())


def promote(database_url: str | None, model: str, number: int | None) -> int:
    """Have it decided whether a version becomes the champion; return the exit status."""
    with _registry(database_url) as (registry, settings, _):
        version = _candidate(registry, _name(model)) if number is None else registry.version(_name(model), number)
        fresh = timedelta(days=settings.models_fresh_days)
        decision = registry.consider(version, datetime.now(UTC), fresh=fresh)
    screen().print(f"{version.shown}: {decision.verdict.value} [{decision.reason}]: {decision.message}")
    return 0 if decision.verdict.value == "promote" else 1


def refuse(database_url: str | None, model: str, number: int, why: str) -> None:
    """Refuse a candidate."""
    with _registry(database_url) as (registry, _, _):
        version = registry.version(_name(model), number)
        registry.refuse(version, why, datetime.now(UTC))
    screen().print(f"{version.shown}: refused")


def roll_back(database_url: str | None, model: str) -> None:
    """Take a champion back."""
    with _registry(database_url) as (registry, _, _):
        version = registry.roll_back(_name(model), datetime.now(UTC))
    screen().print(f"{version.shown}: champion again")


def verify(database_url: str | None, model: str | None) -> int:
    """Print what is wrong with the files; return the exit status."""
    with _registry(database_url) as (registry, _, _):
        found = registry.verify(_known(model))
        strays = registry.strays()
    console, bad = screen(), [(version, problem) for version, problem in found if problem]
    for version, problem in bad:
        console.print(f"{version.shown} ({version.stage.value}): {problem}")
    for name in strays:
        console.print(
            f"{registry.folder.path / name}: no version of this store names it; another store's, or left by a kill"
        )
    console.print(f"{counted(len(found), 'file')} checked, {len(bad)} can't be used")
    return 1 if bad else 0


def fit_all(database_url: str | None, models: list[str], *, promote: bool) -> None:
    """Fit models and say what became of each.

    Raises:
        NotFound: there was nothing to fit any of them to.
    """
    with _registry(database_url) as (registry, settings, engine):
        from convoy.brain.batch import feedback
        from convoy.brain.batch.fit import fit
        from convoy.brain.batch.recipes import RECIPES, recipe_of
        from convoy.core.process.clock import SystemClock

        for name in models:
            recipe_of(name)
        fresh, clock = timedelta(days=settings.models_fresh_days), SystemClock()
        wanted = list(dict.fromkeys(models)) or list(RECIPES)
        missing = 0
        for name in wanted:
            with Working(name) as line:

                def progress(step: str, name: str = name, line: Working = line) -> None:
                    line(f"{name}: {step}")

                try:
                    fitted = fit(engine, registry, name, clock, fresh=fresh, promote=promote, progress=progress)
                except NotFound as error:
                    screen(sys.stderr).print(str(error))
                    missing += 1
                    continue
            version, decision = fitted.version, fitted.decision
            told = f"{version.shown}: {version.stage.value}, fitted to {version.rows:,} rows"
            why = "" if decision is None else f"; {decision.verdict.value} [{decision.reason}]: {decision.message}"
            screen().print(f"{told}{why}")
        feedback.refresh(engine, registry, settings, datetime.now(UTC))
    if missing == len(wanted):
        raise NotFound("nothing was fitted", reason="NothingToFit")


@contextmanager
def _registry(database_url: str | None) -> Iterator[tuple[Registry, BrainSettings, Engine]]:
    """Give the registry of the store that the settings name.

    Raises:
        InvalidSetting, Unusable, UnknownSchema: the database can't be used.
    """
    os.environ.setdefault("CONVOY_LOG_LEVEL", "warning")  # a command says itself what it did
    logs.configure("models")
    given = database_url or database.for_readers(local.existing_cluster())
    settings = BrainSettings.load(database_url=given)
    url = settings.database()
    check(url, must_exist=True)
    engine = open_engine(url, must_exist=True)
    try:
        require_schema(engine)
        yield Registry(engine, settings.models_folder(), keep=settings.models_keep), settings, engine
    finally:
        engine.dispose()


def _name(model: str) -> str:
    from convoy.brain.models.registry.kinds import kind_of

    return kind_of(model).name


def _known(model: str | None) -> str | None:
    return None if model is None else _name(model)


def _candidate(registry: Registry, model: str) -> Version:
    """Return the newest candidate.

    Raises:
        NotFound: there is none.
    """
    for version in registry.versions(model):
        if version.stage is Stage.CANDIDATE:
            return version
    raise NotFound(
        f"model {model!r}: there is no candidate; fit one with `convoy brain fit`, or name a version with --version",
        reason="NoCandidate",
    )


def _in_use(told: dict[str, Any]) -> str:
    """Return how right a version was about plans that were carried out, in words."""
    counts = f"{counted(told['plans'], 'plan')} of {counted(told['jobs'], 'job')} carried out"
    if told["taken_back"]:
        counts += f", {told['taken_back']} taken back"
    if told["bias"] is None:
        return f"{counts}: too few to say how right it was [{told['reason']}]"
    parts = {
        "log bias": _interval(told["bias"], "+.3f"),
        "median error": _interval(told["median_error"], ".1%"),
        "within 90 %": _interval(told["coverage"], ".0%"),
        "cores below what was predicted": _interval(told["load_below"], ".0%"),
        "median error of cost": _interval(told["cost_error"], ".1%"),
    }
    return f"{counts}; " + ", ".join(f"{name} {text}" for name, text in parts.items())


def _plain(version: Version) -> dict[str, Any]:
    """Return a version as JSON's types."""
    moments = {
        name: None if value is None else value.isoformat()
        for name, value in asdict(version).items()
        if value is None or isinstance(value, datetime)
    }
    return {**asdict(version), "stage": version.stage.value, **moments}


def _print_json(document: Any) -> None:
    sys.stdout.write(json.dumps(document, indent=2) + "\n")


def _moment(moment: datetime | None) -> str:
    return "-" if moment is None else f"{moment:%Y-%m-%d %H:%M}"


def _interval(value: dict[str, float] | None, form: str) -> str:
    if not value:
        return "-"
    return f"{value['estimate']:{form}} ({value['lower']:{form}}..{value['upper']:{form}})"
