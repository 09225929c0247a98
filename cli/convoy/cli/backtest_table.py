"""The tables that ``convoy brain backtest`` prints."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from rich.table import Table

from convoy.brain.models.backtest.bootstrap import unanswered
from convoy.cli.screen import counted

PREDICTED: Mapping[str, str] = {
    "mdape": "MdAPE %",
    "mape": "MAPE %",
    "regret": "regret %",
    "smoothed_regret": "smoothed %",
    "coverage": "coverage",
    "width": "width",
    "undefined": "undefined",
}
TUNED: Mapping[str, str] = {
    "early_regret": "regret % at 4",
    "regret": "regret % at 8",
    "final_regret": "final %",
    "smoothed_final": "final, smoothed %",
    "running_loss": "running loss %",
    "moves": "moves",
}
LOADED: Mapping[str, str] = {
    "worker_cpu_mdape": "worker CPU MdAPE %",
    "worker_cpu_coverage": "coverage",
    "worker_cpu_undefined": "undefined",
    "ps_cpu_mae": "server CPU error, cores",
    "ps_cpu_mdape": "server CPU MdAPE %",
    "ps_cpu_coverage": "coverage",
    "ps_cpu_undefined": "undefined",
}
COLUMNS: Mapping[str, Mapping[str, str]] = {"P4": TUNED, "load": LOADED}
SHARES = ("undefined", "coverage")


def tables(summary: pd.DataFrame) -> Iterator[Table]:
    """Yield a table a data set and protocol: mean over jobs, with its 95 % interval in brackets."""
    for (data, protocol), rows in summary.groupby(["data", "protocol"], sort=False):
        scores = COLUMNS.get(str(protocol), PREDICTED)
        many = f"{counted(int(rows['jobs'].max()), 'job')}, {counted(int(rows['seeds'].max()), 'seed')} or fewer"
        table = Table(title=f"{data}, {protocol} ({many}; 95 % intervals over jobs)", title_justify="left", box=None)
        table.add_column("start" if protocol == "P4" else "k")
        table.add_column("method", no_wrap=True)
        for title in scores.values():
            table.add_column(title, justify="right", no_wrap=True)
        silent = unanswered(rows)
        if silent:
            table.caption, table.caption_justify = f"no answer to any of it: {', '.join(silent)}", "left"
        for k, block in rows[~rows["method"].isin(silent)].groupby("k", sort=False):
            for method, own in block.groupby("method", sort=False):
                by_score = own.set_index("score")
                table.add_row(str(k), str(method), *(_cell(by_score, score) for score in scores))
        yield table


def _cell(scores: pd.DataFrame, score: str) -> str:
    if score not in scores.index or math.isnan(mean := _number(scores.loc[score, "mean"])):
        return "-"
    share = score.endswith(SHARES)
    text = f"{mean:.2f}" if share or score in ("width", "ps_cpu_mae") else f"{mean:.1f}"
    lower, upper = _number(scores.loc[score, "lower"]), _number(scores.loc[score, "upper"])
    if math.isnan(lower) or score.endswith("undefined"):
        return text
    places = 2 if share or score in ("width", "ps_cpu_mae") else 1
    return f"{text} [{lower:.{places}f}, {upper:.{places}f}]"


def comparison(rows: pd.DataFrame, score: str) -> Table:
    """Return our score over the published method's that was named for each data set."""
    table = Table(title=f"convoy over the best published method, {score}", title_justify="left", box=None)
    for title in ("data", "protocol", "k", "method", "convoy", "published", "points", "ratio"):
        table.add_column(title, no_wrap=True)
    for row in rows.to_dict("records"):
        ratio = f"{row['ratio']:.2f}"
        if not math.isnan(row["lower"]):
            ratio += f" [{row['lower']:.2f}, {row['upper']:.2f}]"
        points = f"{row['ours'] - row['theirs']:+.1f}"
        shown = (f"{row['ours']:.1f}", f"{row['theirs']:.1f}", points, ratio)
        table.add_row(str(row["data"]), str(row["protocol"]), str(row["k"]), str(row["method"]), *shown)
    return table


def _number(value: Any) -> float:
    return float(value)
