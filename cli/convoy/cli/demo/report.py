"""The demo's report: what was measured, as a table on the terminal and as one HTML page with figures."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from convoy.brain.report import figures
from convoy.brain.report.page import Section, figure, page, table
from convoy.cli.demo import watch
from convoy.cli.demo.measure import speed
from convoy.cli.demo.scenario import Story
from convoy.cli.demo.verify.verdict import Verdict
from convoy.cli.screen import counted
from convoy.core.api import names
from convoy.core.process.paths import jobs_dir

_NOTICED = ("ProcessFailed", "MemberLost", "MemberLeft", "PeerLost", "AgentRestarted")
"""Reasons with which the master ends a round by a fault."""


class Measurements:
    """Everything that the report shows, read once from the run's folder."""

    def __init__(self, directory: Path, story: Story) -> None:
        store = directory / "state" / "brain.db"
        self.story = story
        self.speeds = watch.of_job(store, "training_speed", story.uid)
        self.advice = sorted(watch.of_job(store, "recommendation", story.uid), key=lambda row: row["made_at"])
        self.plans = sorted(watch.of_job(store, "scale_plan", story.uid), key=lambda row: row["created_at"])
        self.events = sorted(watch.of_job(store, "job_event", story.uid), key=lambda row: row["happened_at"])
        self.steps = (
            next((jobs_dir(directory / "state") / "default").glob(names.job_folder("*", story.uid))) / "steps"
        )

    def chosen(self) -> dict[str, Any] | None:
        """Return the recommendation that the job was resized by, None where there was none."""
        used = {plan["recommendation_id"] for plan in self.plans}
        return next((row for row in reversed(self.advice) if row["id"] in used), None)

    def speed_frame(self) -> pd.DataFrame:
        """Return the windows of speed: begin, end (seconds since the submission), samples_per_second, workers."""
        ends = [_moment(row["ended_at"]) - self.story.submitted for row in self.speeds]
        return pd.DataFrame({
            "begin": [end - row["seconds"] for end, row in zip(ends, self.speeds, strict=True)],
            "end": ends,
            "samples_per_second": [row["samples_per_second"] for row in self.speeds],
            "workers": [row["workers"] for row in self.speeds],
        })  # fmt: skip

    def event_frame(self) -> pd.DataFrame:
        """Return what happened: time (seconds since the submission), label, kind."""
        frame = pd.DataFrame(self.story.events, columns=["time", "label", "kind"])
        return frame.assign(time=frame["time"] - self.story.submitted)

    def observed(self) -> pd.DataFrame:
        """Return the settled windows that the Brain had seen when it chose: workers, samples_per_second."""
        chosen = self.chosen()
        until = chosen["made_at"] if chosen else ""
        seen = [row for row in self.speeds if not row["warming"] and row["ended_at"] <= until]
        return pd.DataFrame(
            [(row["workers"], row["samples_per_second"]) for row in seen], columns=["workers", "samples_per_second"]
        )

    def measured(self) -> pd.DataFrame:
        """Return the sizes that were measured without the Brain: workers, samples_per_second."""
        found = [(one["workers"], speed(Path(one["steps"]))) for one in self.story.measured]
        return pd.DataFrame(found, columns=["workers", "samples_per_second"])

    def recoveries(self) -> pd.DataFrame:
        """Return the phases of each recovery: fault, phase, seconds."""
        marks = [record for record in watch.records(self.steps) if record.get("event") == "restored"]
        rows = []
        for fault in self.story.faults:
            killed, first = fault["killed"], fault["first_step"]
            ends = {
                "detect": self._event(_NOTICED, killed, first),
                "regroup": self._event(("RoundCompleted",), killed, first),
                "start": max((mark["t"] for mark in marks if killed < mark["t"] <= first), default=None),
                "first step": first,
            }
            begin = killed
            for phase, end in ends.items():
                if end is not None and end >= begin:
                    rows.append((fault["label"], phase, end - begin))
                    begin = end
        return pd.DataFrame(rows, columns=["fault", "phase", "seconds"])

    def _event(self, reasons: tuple[str, ...], after: float, before: float) -> float | None:
        moments = [_moment(row["happened_at"]) for row in self.events if row["reason"] in reasons]
        return min((moment for moment in moments if after <= moment <= before), default=None)


def write_report(directory: Path, story: Story, verdicts: list[Verdict], console: Console) -> Path:
    """Print the table of the plans and recoveries, and write ``report.html``; return its path."""
    found = Measurements(directory, story)
    console.print(_terminal_table(found))
    if story.unmeasured:
        console.print(f"measured are the sizes that the machine has cores for: {story.unmeasured}", soft_wrap=True)
    path = directory / "report.html"
    path.write_text(_page(found, verdicts), encoding="utf-8")
    return path


def _terminal_table(found: Measurements) -> Table:
    shown = Table(title="What was predicted, what came of it", title_justify="left")
    for name in ("", "workers", "predicted (90 %)", "realized", "without training", "why"):
        shown.add_column(name, overflow="fold")
    for plan in found.plans:
        shown.add_row(
            Text(plan["name"], style="green"),
            f"{plan['workers_before']} -> {plan['workers_after']}",
            _interval(plan["predicted"], plan["predicted_lower"], plan["predicted_upper"]),
            _number(plan["realized"]),
            _seconds(plan["restart_seconds"]),
            Text(plan["reason"]),
        )
    recoveries = found.recoveries()
    for fault in found.story.faults:
        phases = recoveries[recoveries["fault"] == fault["label"]]
        parts = ", ".join(f"{row.phase} {row.seconds:.2f}" for row in phases.itertuples())
        shown.add_row(
            Text(fault["label"], style="red"), "", "", "", _seconds(fault["first_step"] - fault["killed"]), parts
        )
    for row in found.measured().itertuples():
        shown.add_row("measured, unseen", str(row.workers), "", f"{row.samples_per_second:.0f}", "", "")
    return shown


def _page(found: Measurements, verdicts: list[Verdict]) -> str:
    speed_figure = figures.speed_over_time(found.speed_frame(), found.event_frame())
    rows = [
        [[Section("Speed", "What the training reached, and what happened to it.", figure(speed_figure))]],
        [_curve(found), [*_plans(found), *_recoveries(found)]],
        [[Section("Claims", "Each checked from the run's logs and stores alone.", _claims(verdicts))]],
        [[Section("What the master decided", "", _events(found))]],
    ]
    begun = datetime.fromtimestamp(found.story.submitted, UTC).strftime("%Y-%m-%d %H:%M UTC")
    lead = f"One job, submitted {begun} at the wrong size, resized by the Brain, hit by faults. All of it measured."
    lead += " The demo ended it early, by its finish file."
    return page("Convoy's demo", lead, rows)


def _curve(found: Measurements) -> list[Section]:
    chosen = found.chosen()
    if chosen is None:
        return []
    options = [one for one in json.loads(chosen["options"]) if one["predicted"] is not None]
    if not options:
        return []
    svg = figures.fitted_curve(pd.DataFrame(options), found.observed(), found.measured())
    own = chosen["observations"]
    learned = f"learned from {counted(chosen['history_jobs'], 'job')} of history and {counted(own, 'observation')}"
    text = f"{chosen['decision']}, {chosen['reason']}: {chosen['message']}; {learned}."
    if found.story.measured:
        text += " Later other jobs were measured at the sizes that the machine has cores for, unseen by the Brain"
        text += f": {found.story.unmeasured}." if found.story.unmeasured else "."
    return [Section("What the Brain expected", text, figure(svg))]


def _plans(found: Measurements) -> list[Section]:
    predicted = [plan for plan in found.plans if plan["predicted"]]
    if not predicted:
        return []
    names = {"name": "plan", "predicted_lower": "lower90", "predicted_upper": "upper90"}
    frame = pd.DataFrame(predicted).rename(columns=names)
    for name in ("predicted", "lower90", "upper90", "realized"):
        frame[name] = pd.to_numeric(frame[name]).astype("float64")
    svg = figures.predicted_and_realized(frame)
    return [Section("Plans", "Predicted when each was made; realized after its warm-up.", figure(svg))]


def _recoveries(found: Measurements) -> list[Section]:
    phases = found.recoveries()
    if phases.empty:
        return []
    text = "From the kill until the loss is known, a new world has met, the checkpoint is restored, a step is done."
    return [Section("Recoveries", text, figure(figures.recoveries(phases)))]


def _claims(verdicts: list[Verdict]) -> str:
    words = {True: "PASS", False: "FAIL", None: "----"}
    classes = {True: "pass", False: "fail", None: "open"}
    return table(
        ["", "claim", "found"],
        [[words[verdict.holds], verdict.claim, verdict.facts] for verdict in verdicts],
        [classes[verdict.holds] for verdict in verdicts],
    )


def _events(found: Measurements) -> str:
    begun = found.story.submitted
    return table(
        ["seconds", "reason", "node", "step", "message"],
        [
            [
                f"{_moment(row['happened_at']) - begun:.2f}",
                row["reason"],
                row["node"],
                "" if row["step"] is None else str(row["step"]),
                row["message"],
            ]
            for row in found.events
        ],
    )


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:.0f}"


def _seconds(value: float | None) -> str:
    return "-" if not value else f"{value:.2f} s"


def _interval(predicted: float | None, lower: float | None, upper: float | None) -> str:
    return "-" if not predicted else f"{predicted:.0f} ({_number(lower)}..{_number(upper)})"
