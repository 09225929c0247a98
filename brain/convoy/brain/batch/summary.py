"""A run in words: one sentence for its row, and a page in Markdown for people. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from convoy.brain.store.runs import Run

_DASH = "–"


def sentence(run: Run) -> str:
    """Return what a run came to, in one sentence."""
    fitted, promoted = run.report.get("fit", {}), run.report.get("promote", {})
    planned, applied = run.report.get("plan", {}), run.report.get("apply", {})
    count = sum(1 for one in fitted.values() if one.get("outcome") == "fitted")
    up = [name for name, one in promoted.items() if one.get("verdict") == "promote"]
    parts = [f"{_counted(count, 'model')} fitted" + (f", {' and '.join(up)} promoted" if up else "")]
    changes = len(planned.get("changes", ())) + planned.get("changes_left_out", 0)
    parts.append(f"{_counted(run.jobs, 'job')} looked at, {_counted(changes, 'change')} recommended")
    if applied.get("mode") == "apply":
        parts.append(f"{_counted(run.plans, 'ScalePlan')} written")
    failures = len(errors(run))
    if failures:
        parts.append(_counted(failures, "error"))
    return "; ".join(parts)


def errors(run: Run) -> list[str]:
    """Return what went wrong in a run that went on nevertheless, a sentence each."""
    found = []
    for stage in ("features", "fit", "promote"):
        for name, one in run.report.get(stage, {}).items():
            if "error" in one and not (stage == "fit" and "error" in run.report["features"].get(name, {})):
                found.append(f"{stage}: model {name}: {one['error']}")
    for stage, items in (("plan", "errors"), ("apply", "plans")):
        for one in run.report.get(stage, {}).get(items, ()):
            if "error" in one:
                found.append(f"{stage}: job {one['namespace']}/{one['job']}: {one['error']}")
    whole = {
        "feedback: ": run.report.get("feedback", {}),
        "plan: all jobs together: ": run.report.get("plan", {}).get("together", {}),
    }
    found += [f"{what}{one['error']}" for what, one in whole.items() if "error" in one]
    left_out = run.report.get("plan", {}).get("errors_left_out", 0)
    return [*found, *([f"plan: {left_out} more"] if left_out else [])]


def page(run: Run) -> str:
    """Return the report of a run, in Markdown."""
    report = run.report
    lines = [
        f"# Batch for {_moment(run.window_from)} to {_moment(run.window_until)} UTC",
        "",
        f"**{run.state.value.capitalize()}**: {run.message or 'it goes on'}",
        "",
        *_table(("what", "value"), _facts(run)),
    ]
    if "features" in report:
        lines += ["", "## What there is to learn from", "", *_features(report["features"])]
    if "fit" in report:
        lines += ["", "## Models", "", *_models(report["fit"], report.get("promote", {}))]
    in_use = [one for one in report.get("feedback", {}).get("versions", ()) if one["plans"]]
    if in_use:
        heads = ("model", "plans carried out", "taken back", "median error", "within the 90 % interval")
        lines += ["", "## How right predictions were in use", "", *_table(heads, (_use(one) for one in in_use))]
    if "plan" in report:
        lines += ["", "## Plans", "", *_plans(report["plan"], report.get("apply", {}))]
    found = errors(run)
    if found:
        lines += ["", "## Errors", "", *(f"- {one}" for one in found)]
    return "\n".join(lines) + "\n"


def _facts(run: Run) -> list[tuple[str, str]]:
    ended = _DASH if run.ended_at is None else f"{_moment(run.ended_at)} UTC"
    facts = [
        ("mode", run.mode),
        ("models fitted", run.engine),
        ("began", f"{_moment(run.began_at)} UTC"),
        ("ended", ended),
        ("last stage finished", run.stage or _DASH),
        ("begun or gone on with", _counted(run.starts, "time")),
    ]
    if "rollup" in run.report:
        facts.append(("subject-hours summed", f"{run.report['rollup']['hours']:,}"))
    return [*facts, ("run", str(run.id))]


def _features(found: dict[str, Any]) -> list[str]:
    rows = []
    for name, one in found.items():
        if "rows" in one:
            window = f"{_text(one['from'])} to {_text(one['until'])}"
            rows.append((name, f"{one['rows']:,}", f"{one['jobs']:,}", window))
        else:
            rows.append((name, _DASH, _DASH, one.get("nothing") or one.get("error", "")))
    return _table(("model", "rows", "of jobs or series", "from and until, or why there are none"), rows)


def _models(fitted: dict[str, Any], promoted: dict[str, Any]) -> list[str]:
    rows = []
    for name, one in fitted.items():
        decision = promoted.get(name, {})
        champion = decision.get("champion")
        rows.append(
            (
                name,
                _outcome(one),
                _share((one.get("score") or {}).get("error")),
                _decision(decision),
                _DASH if not champion else f"version {champion['version']} of {_text(champion['fitted_at'])}",
            )
        )
    return _table(("model", "what was done", "error in the back-test", "decision", "champion now"), rows)


def _use(one: dict[str, Any]) -> tuple[str, ...]:
    name = f"{one['model']} version {one['version']}"
    return (name, str(one["plans"]), str(one["taken_back"]), _share(one["median_error"]), _share(one["coverage"]))


def _outcome(one: dict[str, Any]) -> str:
    match one.get("outcome"):
        case "fitted":
            return f"version {one['version']} fitted to {one['rows']:,} rows in {one['seconds']:.3g} s"
        case "unchanged":
            return f"the same rows as version {one['version']}: not fitted again"
        case _:
            return "error" if "error" in one else "nothing to fit to"


def _share(interval: dict[str, float] | None) -> str:
    if not interval:
        return _DASH
    return f"{interval['estimate']:.1%} ({interval['lower']:.1%} to {interval['upper']:.1%})"


def _decision(decision: dict[str, Any]) -> str:
    if "verdict" not in decision:
        return _DASH
    word = {"promote": "promoted", "keep": "not promoted"}[decision["verdict"]]
    return f"{word} [{decision['reason']}]: {decision['message']}"


def _plans(planned: dict[str, Any], applied: dict[str, Any]) -> list[str]:
    decisions = ", ".join(f"{count} {name}" for name, count in planned["decisions"].items()) or "none"
    lines = [f"{_counted(planned['jobs'], 'job')} live; decisions: {decisions}."]
    lines.append(f"All jobs together: {planned['together']['message']}.".replace("..", "."))
    if planned["unmeasured"]:
        lines.append(f"Of {_counted(planned['unmeasured'], 'job')} nothing is known yet.")
    valued = planned["together"].get("valued_by", {})
    if valued:
        lines.append(f"Valued by: {', '.join(f'{what} {count}' for what, count in valued.items())}.")
    lines += [f"Note: {note}." for note in planned["together"].get("notes", ())]
    if planned["kept"]:
        why = ", ".join(f"{reason} {count}" for reason, count in planned["kept"].items())
        lines.append(f"Kept as they are: {why}.")
    outcomes = {one["id"]: one for one in applied.get("plans", ())}
    rows = [
        (
            f"{one['namespace']}/{one['job']}",
            f"{one['workers_before']} to {one['workers']}",
            _speed(one),
            _price(one),
            f"{one['decision']} [{one['reason']}]: {one['message']}",
            _became(one, outcomes),
        )
        for one in planned["changes"]
    ]
    if rows:
        heads = ("job", "workers", "samples/s, 90 % interval", "an hour", "why", "what became of it")
        lines += ["", *_table(heads, rows)]
    lines += _kept(planned)
    scarce = planned["together"].get("prices", ())
    if scarce:
        heads = ("scarce", "where", "whose quota", "used", "there is", "worth of one more")
        lines += ["", *_table(heads, (_scarce(one) for one in scarce))]
    if planned["changes_left_out"]:
        lines += ["", f"And {planned['changes_left_out']} more."]
    return lines


def _scarce(one: dict[str, Any]) -> tuple[str, ...]:
    numbers = (_number(one[name]) for name in ("used", "available", "price"))
    whose = " in ".join(part for part in (one["user"], one.get("namespace", "")) if part)
    return (one["resource"], one["pool"] or "all pools", whose or _DASH, *numbers)


def _kept(planned: dict[str, Any]) -> list[str]:
    """Return why each job that isn't changed isn't."""
    rows = [
        (f"{one['namespace']}/{one['job']}", str(one["workers"]), f"[{one['reason']}] {one['message']}")
        for one in planned.get("kept_jobs", ())
    ]
    more = planned.get("kept_left_out", 0)
    left_out = ["", f"And {_counted(more, 'job')} more that aren't changed."] if more else []
    return ["", *_table(("not changed", "workers", "why"), rows), *left_out] if rows else []


def _became(one: dict[str, Any], outcomes: dict[str, Any]) -> str:
    outcome = outcomes.get(one["id"])
    if outcome is None:
        return f"proposed: `convoy brain accept {one['id'][:8]}` or `refuse`"
    return f"[{outcome['outcome']}] {outcome['message']}"


def _speed(one: dict[str, Any]) -> str:
    if one["predicted"] is None:
        return _DASH
    return f"{one['predicted']:.4g} ({_number(one['lower90'])} to {_number(one['upper90'])})"


def _price(one: dict[str, Any]) -> str:
    return _DASH if one["price_per_hour"] is None else f"{one['price_per_hour']:.3g} {one['currency']}"


def _number(value: float | None) -> str:
    return _DASH if value is None else f"{value:.4g}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"

    return [line(heads), line("---" for _ in heads), *(line(row) for row in rows)]


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _text(moment: str | None) -> str:
    return _DASH if moment is None else _moment(datetime.fromisoformat(moment))
