"""A model's card, in Markdown: what it is, what it was fitted to, how good it is, when to use it and when not.

All of it comes from the model's file and from what its kind is known for (``kinds``); nothing is written by hand.
"""

from __future__ import annotations

from datetime import datetime

from convoy.brain.models.registry.backtest import LEVEL, BackTest, Interval
from convoy.brain.models.registry.facts import Facts
from convoy.brain.models.registry.kinds import kind_of
from convoy.brain.models.registry.promotion import MIN_JOBS


def card(facts: Facts, *, version: int | None = None, stage: str | None = None) -> str:
    """Return the card of a model.

    Args:
        facts: of its file.
        version: its number in the registry, if it has one.
        stage: its stage there.

    Raises:
        InvalidInput: no such model is known.
    """
    kind = kind_of(facts.name)
    number = "" if version is None else f", version {version}"
    parts = [
        f"# Model card: {facts.name}{number}",
        f"**{kind.title[0].upper()}{kind.title[1:]}.** {kind.what}",
        _table(_identity(facts, stage)),
        "## What it was fitted to",
        _table(_origin(facts)),
        "## How good it is",
        *_quality(facts, kind.unit),
        "## How to use it",
        kind.use,
        "## Limits",
        _list(kind.limits),
        "## When not to use it",
        _list((*kind.not_for, *_doubts(facts, kind.unit))),
        "## Columns",
        _columns(facts),
    ]
    return "\n\n".join(parts) + "\n"


def _identity(facts: Facts, stage: str | None) -> list[tuple[str, str]]:
    rows = [("stage", stage)] if stage is not None else []
    return [
        *rows,
        ("fitted at", _moment(facts.created_at)),
        ("by", f"Convoy {facts.code_version}, in {facts.seconds:.3g} s"),
        ("columns", f"schema {facts.schema.hash[:12]}"),
    ]


def _origin(facts: Facts) -> list[tuple[str, str]]:
    return [
        ("from", _moment(facts.trained_from)),
        ("until", _moment(facts.trained_until)),
        ("rows", f"{facts.rows:,}"),
        ("jobs", f"{facts.jobs:,}"),
        ("SHA-256 of the rows", facts.fitted_to[:12]),
    ]


def _quality(facts: Facts, unit: str) -> list[str]:
    contest = facts.contest
    if contest is None:
        return ["There was no back-test: how good it is isn't known."]
    own = contest.candidate
    tests = [test for test in (own, contest.baseline, contest.champion) if test is not None]
    head = (
        f"| model | median relative error | by this model's | rows within {own.level:.0%} intervals | upper / lower |"
    )
    lines = [head, "| --- | --- | --- | --- | --- |", *(_result(test, own) for test in tests)]
    told = (
        f"Back-test: {own.protocol}. {own.rows:,} rows of {len(own.scores):,} {unit}s, the same for all. Errors are "
        f"geometric means over {unit}s, coverage is a mean over them; in brackets are {LEVEL:.0%} bootstrap "
        f"intervals over {unit}s."
    )
    return [told, "\n".join(lines)]


def _result(test: BackTest, own: BackTest) -> str:
    name = "this one" if test is own else test.of[:24]
    ratio = "1" if test is own or not test.comparable(own) else _interval(test.ratio(own), "{:.2f}")
    coverage, width = test.coverage(), test.width()
    held = "no intervals" if coverage is None else _interval(coverage, "{:.0%}")
    span = "" if width is None else f"{width:.3g}"
    return f"| {_plain(name)} | {_interval(test.error(), '{:.1%}')} | {ratio} | {held} | {span} |"


def _doubts(facts: Facts, unit: str) -> list[str]:
    """Return what this very file's numbers advise against."""
    if facts.contest is None:
        return ["It was never tested: not at all, where a tested one is there."]
    own, baseline = facts.contest.candidate, facts.contest.baseline
    found = []
    if len(own.scores) < MIN_JOBS:
        found.append(f"It was tested on {len(own.scores)} {unit}s alone: too few to say what it is worth.")
    if baseline is not None and own.comparable(baseline) and own.ratio(baseline).upper >= 1.0:
        found.append(f"It isn't clearly better than {_plain(baseline.of)}, which is simpler.")
    coverage = own.coverage()
    if coverage is not None and coverage.upper < own.level:
        found.append(
            f"Its intervals hold less than they claim ({coverage.estimate:.0%} of {own.level:.0%}): not where being "
            "too sure costs much."
        )
    return found


def _columns(facts: Facts) -> str:
    return _table([(name, kind) for name, kind in facts.schema.columns], ("column", "type"))


def _table(rows: list[tuple[str, str]], head: tuple[str, str] = ("", "")) -> str:
    lines = [f"| {head[0]} | {head[1]} |", "| --- | --- |", *(f"| {_plain(a)} | {_plain(b)} |" for a, b in rows)]
    return "\n".join(lines)


def _list(sentences: tuple[str, ...]) -> str:
    return "\n".join(f"- {sentence}" for sentence in sentences)


def _interval(value: Interval, form: str) -> str:
    return f"{form.format(value.estimate)} ({form.format(value.lower)} to {form.format(value.upper)})"


def _moment(moment: datetime | None) -> str:
    return "not known" if moment is None else f"{moment:%Y-%m-%d %H:%M} UTC"


def _plain(text: str) -> str:
    """Return text as a cell shows it: what tables and markup would take for theirs is escaped."""
    one_line = " ".join(text.split())
    return "".join(f"\\{letter}" if letter in "\\|`*_<>[]" else letter for letter in one_line)
