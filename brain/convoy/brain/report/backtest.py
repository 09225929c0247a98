"""Figures of a back-test, as SVG text. Frames in, text out; nothing is read or written here.

Colours are Okabe and Ito's, which people of all kinds of colour vision can tell apart; each method has a marker too.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from convoy.brain.models.backtest.bootstrap import unanswered

COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#8C8C8C",
    "#7B5B3A",
    "#B2A300",
)
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<", ">", "*")

PANELS: Mapping[str, str] = {
    "mdape": "median absolute error of speed (%)",
    "regret": "regret of the choice (% of the best speed)",
    "coverage": "share of rows within the 90 % interval",
    "width": "upper / lower of the 90 % interval",
}
"""Scores of P1 that are drawn, with their axes' labels."""

ROUNDS: Mapping[str, str] = {
    "early_regret": "regret after 4 rounds (%)",
    "regret": "regret after 8 rounds (%)",
    "running_loss": "samples lost, restarts included (%)",
    "moves": "moves",
}
"""Scores of P4 that are drawn."""

_STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "backtest",
}


def figures(summary: pd.DataFrame) -> dict[str, str]:
    """Return SVG figures by name: of each data set, P1 over the rows seen, and P4 by method.

    Args:
        summary: of ``convoy.brain.models.backtest.bootstrap.summary``.
    """
    drawn: dict[str, str] = {}
    with mpl.rc_context(_STYLE):
        for data, rows in summary.groupby("data", sort=False):
            methods = list(dict.fromkeys(rows["method"]))
            seen = rows[rows["protocol"] == "P1"]
            if len(seen):
                drawn[f"{data}-p1"] = _over_k(str(data), seen, methods)
            rounds = rows[rows["protocol"] == "P4"]
            if len(rounds):
                drawn[f"{data}-p4"] = _by_method(str(data), rounds, methods)
    return drawn


def _over_k(data: str, rows: pd.DataFrame, methods: Sequence[str]) -> str:
    figure = Figure(figsize=(9.5, 6.6), layout="constrained")
    for axes, (score, label) in zip(figure.subplots(2, 2).flat, PANELS.items(), strict=True):
        part = rows[(rows["score"] == score) & rows["mean"].notna()]
        sizes = sorted({int(k) for k in part["k"]})
        for place, method in enumerate(methods):
            own = part[part["method"] == method]
            if len(own):
                shift = 0.03 * (place - len(methods) / 2)  # so that intervals don't hide each other
                at = [sizes.index(int(k)) + shift for k in own["k"]]
                _with_interval(axes, np.array(at), own, place, method)
        axes.set_xticks(range(len(sizes)), [str(size) for size in sizes])
        axes.set_xlabel("configurations seen")
        axes.set_ylabel(label)
        if score == "coverage":
            axes.axhline(0.9, color="#8C8C8C", linewidth=0.8, linestyle=(0, (4, 2)))
            axes.set_ylim(0, 1.02)
        elif score == "regret" or not (part["mean"] >= 100).any():
            axes.set_ylim(0, None)
        else:
            axes.set_yscale("log")
    figure.suptitle(f"{data}, P1: predicted from few configurations; bars: 95 % over jobs")
    _legend(figure)
    return _svg(figure)


def _with_interval(axes: Axes, at: np.ndarray[Any, np.dtype[np.float64]], rows: pd.DataFrame, place: int,
                   label: str) -> None:  # fmt: skip
    mean = rows["mean"].to_numpy(dtype=np.float64)
    below = np.nan_to_num(mean - rows["lower"].to_numpy(dtype=np.float64))
    above = np.nan_to_num(rows["upper"].to_numpy(dtype=np.float64) - mean)
    axes.errorbar(
        at, mean, yerr=np.maximum([below, above], 0.0), color=COLOURS[place % len(COLOURS)],
        marker=MARKERS[place % len(MARKERS)], markersize=4, linewidth=1.2, elinewidth=0.7, label=label,
    )  # fmt: skip


def _by_method(data: str, rows: pd.DataFrame, methods: Sequence[str]) -> str:
    starts = list(dict.fromkeys(rows["k"]))
    figure = Figure(figsize=(11.0, 1.4 + 2.4 * len(starts)), layout="constrained")
    grid = figure.subplots(len(starts), len(ROUNDS), squeeze=False, sharey=True)
    silent = unanswered(rows)
    shown = [method for method in methods if method in set(rows["method"]) and method not in silent]
    for line, start in zip(grid, starts, strict=True):
        for axes, (score, label) in zip(line, ROUNDS.items(), strict=True):
            part = rows[(rows["k"] == start) & (rows["score"] == score)].set_index("method").reindex(shown)
            for place, method in enumerate(shown):
                mean, lower, upper = (float(part.loc[method, name]) for name in ("mean", "lower", "upper"))
                if np.isfinite(mean):
                    spread = np.maximum(np.nan_to_num([[mean - lower], [upper - mean]]), 0.0)
                    axes.errorbar(
                        mean, -place, xerr=spread, marker=MARKERS[place % len(MARKERS)], capsize=2,
                        color=COLOURS[place % len(COLOURS)], elinewidth=0.8,
                    )  # fmt: skip
            axes.set_yticks([-place for place in range(len(shown))], shown)
            axes.set_xlim(-0.04 * axes.get_xlim()[1], None)  # a marker at zero is whole
            axes.set_xlabel(label)
        line[0].set_ylabel(f"start: {start}")
    figure.suptitle(f"{data}, P4: eight rounds of 30 minutes; bars: 95 % over jobs")
    return _svg(figure)


def _legend(figure: Figure) -> None:
    lines: dict[Any, Any] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        lines.update(zip(labels, handles, strict=True))
    figure.legend(list(lines.values()), list(lines), loc="outside lower center", ncols=5, frameon=False)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
