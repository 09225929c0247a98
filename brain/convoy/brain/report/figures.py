"""Figures about a job, as SVG text to stand inside a page or a notebook. Frames in, text out; nothing is read here.

Times are seconds since whatever moment the caller takes for zero; speeds are samples/s.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, GREY, BLUE, ORANGE, RED, GREEN = "#1f2933", "#9aa5b1", "#2563eb", "#f59e0b", "#dc2626", "#15803d"
EVENT_COLOURS: Mapping[str, str] = {"fault": RED, "plan": GREEN, "state": GREY}
PHASE_COLOURS: Mapping[str, str] = {
    "detect": "#7f1d1d",
    "regroup": "#dc2626",
    "start": "#f59e0b",
    "first step": "#1d4ed8",
}
"""Phases of a recovery, in their order: until the loss is known, a new world has met, its processes have restored the
checkpoint, and the first step is finished."""

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",
}


def speed_over_time(speeds: pd.DataFrame, events: pd.DataFrame) -> str:
    """Draw the training speed, a step for each window, and a line for each event.

    Args:
        speeds: ``begin``, ``end``, ``samples_per_second``, ``workers``; a row a window of one size.
        events: ``time``, ``label``, ``kind`` (one of ``EVENT_COLOURS``).
    """
    with _style("speed"):
        figure, axes = _axes(9.0, 3.6)
        for workers in sorted({int(count) for count in speeds["workers"]}):
            rows = speeds[speeds["workers"] == workers]
            shade = BLUE if workers > 1 else ORANGE
            axes.hlines(rows["samples_per_second"], rows["begin"], rows["end"], color=shade, linewidth=2.4)
            axes.plot([], [], color=shade, linewidth=2.4, label=f"{workers} worker{'s' if workers > 1 else ''}")
        top = float(speeds["samples_per_second"].max()) if len(speeds) else 1.0
        axes.set_ylim(0, top * 1.5)
        moments = [*speeds["end"], *events["time"]]
        axes.set_xlim(0, max(moments, default=1.0) * 1.08)
        _events(axes, events, top)
        axes.set_xlabel("seconds since the job was submitted")
        axes.set_ylabel("samples/s")
        axes.legend(loc="lower right", frameon=False)
        return _svg(figure)


def _events(axes: Axes, events: pd.DataFrame, top: float) -> None:
    begin, end = axes.get_xlim()
    rows: list[float] = [-np.inf] * 4  # where the text on each height ends
    for event in events.sort_values("time").itertuples():
        colour = EVENT_COLOURS[str(event.kind)]
        time = float(event.time)  # type: ignore[arg-type]
        axes.axvline(time, color=colour, linewidth=0.9, linestyle=(0, (4, 2)), zorder=0)
        height = next((index for index, used in enumerate(rows) if used < time), len(rows) - 1)
        rows[height] = time + (end - begin) * (0.012 * len(str(event.label)) + 0.01)
        place = top * (1.46 - 0.09 * height)
        axes.text(time + (end - begin) * 0.004, place, str(event.label), color=colour, fontsize=8, va="top",
                  zorder=4, bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8})  # fmt: skip


def fitted_curve(options: pd.DataFrame, observed: pd.DataFrame, measured: pd.DataFrame) -> str:
    """Draw what the model expected at each size, with its intervals, and what was seen.

    Args:
        options: ``workers``, ``predicted``, ``lower90``, ``upper90``, ``lower99``, ``upper99``, ``verdict``.
        observed: ``workers``, ``samples_per_second``: windows that the model had seen.
        measured: the same columns: sizes that were measured afterwards, without the Brain.
    """
    with _style("curve"):
        figure, axes = _axes(5.4, 3.6)
        options = options.sort_values("workers")
        workers = options["workers"].to_numpy(dtype=float)
        if len(options) > 1:
            axes.fill_between(workers, options["lower99"], options["upper99"], color=BLUE, alpha=0.12, linewidth=0)
            axes.fill_between(workers, options["lower90"], options["upper90"], color=BLUE, alpha=0.22, linewidth=0)
        low, high = options["predicted"] - options["lower99"], options["upper99"] - options["predicted"]
        axes.errorbar(workers, options["predicted"], yerr=[low, high], color=BLUE, linewidth=1.6, elinewidth=0.8,
                      capsize=4, marker="o", markersize=4, label="predicted, 90 % and 99 % interval")  # fmt: skip
        _scatter(axes, observed, ORANGE, "x", "seen by the Brain")
        _scatter(axes, measured, GREEN, "D", "measured afterwards, unseen")
        chosen = options[options["verdict"] == "chosen"]
        for row in chosen.itertuples():
            axes.annotate(
                "chosen", (float(row.workers), float(row.upper99)), xytext=(0, 6),  # type: ignore[arg-type]
                textcoords="offset points", ha="center", fontsize=8, color=BLUE,
            )  # fmt: skip
        axes.set_xticks(sorted({*workers, *measured.get("workers", pd.Series(dtype=float))}))
        axes.margins(x=0.15)
        axes.set_ylim(0, None)
        axes.set_xlabel("workers")
        axes.set_ylabel("samples/s")
        figure.legend(loc="outside upper left", frameon=False, fontsize=8)
        return _svg(figure)


def _scatter(axes: Axes, points: pd.DataFrame, colour: str, marker: str, label: str) -> None:
    if len(points):
        axes.scatter(points["workers"], points["samples_per_second"], color=colour, marker=marker, s=28, zorder=3,
                     alpha=0.85, label=label)  # fmt: skip


def predicted_and_realized(plans: pd.DataFrame) -> str:
    """Draw each plan's prediction with its interval beside what came of it.

    Args:
        plans: ``plan``, ``predicted``, ``lower90``, ``upper90``, ``realized``; NaN: not known.
    """
    with _style("plans"):
        figure, axes = _axes(5.4, 1.0 + 0.5 * max(1, len(plans)))
        places = np.arange(len(plans))[::-1]
        error = [plans["predicted"] - plans["lower90"], plans["upper90"] - plans["predicted"]]
        axes.errorbar(plans["predicted"], places, xerr=error, fmt="o", color=BLUE, capsize=4, markersize=5,
                      label="predicted, 90 % interval")  # fmt: skip
        axes.scatter(plans["realized"], places, color=GREEN, marker="D", s=36, zorder=3, label="realized")
        axes.set_yticks(places, [str(name) for name in plans["plan"]])
        axes.set_ylim(-0.7, len(plans) - 0.3)
        axes.set_xlim(0, None)
        axes.set_xlabel("samples/s")
        figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8)
        return _svg(figure)


def recoveries(phases: pd.DataFrame) -> str:
    """Draw how long each recovery took, by phase.

    Args:
        phases: ``fault``, ``phase`` (one of ``PHASE_COLOURS``), ``seconds``; the faults in their order.
    """
    with _style("recoveries"):
        faults = list(dict.fromkeys(phases["fault"]))
        figure, axes = _axes(5.4, 1.0 + 0.5 * max(1, len(faults)))
        table = phases.pivot_table(index="fault", columns="phase", values="seconds", aggfunc="sum").reindex(faults)
        left = np.zeros(len(faults))
        places = np.arange(len(faults))[::-1]
        for phase, colour in PHASE_COLOURS.items():
            if phase in table:
                width = table[phase].fillna(0.0).to_numpy()
                axes.barh(places, width, left=left, height=0.55, color=colour, label=phase)
                left = left + width
        for place, total in zip(places, left, strict=True):
            axes.text(total, place, f" {total:.2f} s", va="center", fontsize=8)
        axes.set_yticks(places, faults)
        axes.set_xlim(0, max(left, default=1.0) * 1.15 or 1.0)
        axes.set_xlabel("seconds without a finished step")
        figure.legend(loc="outside upper left", ncols=4, frameon=False, fontsize=8)
        return _svg(figure)


@contextmanager
def _style(name: str) -> Iterator[None]:
    """Give the figure that is drawn within its look; ``name`` keeps the ids of two figures in one page apart."""
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        yield


def _axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Figure) -> str:
    """Return the figure as an ``svg`` element without a prolog."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
