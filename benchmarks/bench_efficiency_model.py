"""How right efficiency at other batches is: python benchmarks/bench_efficiency_model.py DIR

DIR holds ``statistical_efficiency.csv``, public gradient statistics. Each application in turn is left out of the
history. Of each of its batches the first epochs are seen, and efficiency is predicted for all its other batches, at
later epochs: the next one, half as many again, twice as many, the last. Beside the model stand keeping the last
reading's noise and counting every sample as one. Columns: questions, share within the 90 % interval, median of
upper/lower, median and mean relative error in percent.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

from convoy.brain.features.published.efficiency import read_efficiency
from convoy.brain.models.efficiency import EfficiencyModel, log_efficiency

PARTS = (0.05, 0.1, 0.25, 0.5, 0.75)
"""Of all epochs, those that were seen."""


def as_jobs(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with each batch of an application as a job of its own: most jobs keep their batch."""
    return rows.assign(job=rows["job"] + "-" + rows["batch_size"].astype(int).astype(str))


def truth(rows: pd.DataFrame, noise: pd.Series | float | None = None) -> pd.Series:
    """Return the logarithm of the efficiency that rows show, or would under another noise (its logarithm)."""
    if noise is None:
        noise = np.log(rows["grad_var"] / rows["grad_sqr"])
    return pd.Series(log_efficiency(np.log(rows["batch_size"] / rows["initial_batch"]), noise), rows.index)


def questions(own: pd.DataFrame, batch: float, seen: int) -> pd.DataFrame:
    """Return the rows that are asked about once ``seen`` epochs of ``batch`` were seen."""
    last = int(own["epoch"].max())
    later = {seen + 1, min(last, -(-seen * 3 // 2)), min(last, 2 * seen), last}
    other = own["batch_size"].ne(batch) & own["batch_size"].ne(own["initial_batch"])
    return own[own["epoch"].isin(later - set(range(seen + 1))) & other & own["grad_sqr"].gt(0)]


def answers(model: EfficiencyModel, own: pd.DataFrame) -> pd.DataFrame:
    """Return what the model and the simple rules say of one application, as logarithms, beside the truth."""
    found = []
    last = int(own["epoch"].max())
    for batch, rows in own.groupby("batch_size"):
        for seen in sorted({max(1, round(part * last)) for part in PARTS} - {last}):
            observed, asked = rows[rows["epoch"] <= seen], questions(own, batch, seen)
            readable = observed[observed["grad_sqr"] > 0]
            if asked.empty or readable.empty:
                continue
            said = np.log(model.predict(observed, asked)[["mean", "lower", "upper"]])
            newest = readable.iloc[-1]
            keep = truth(asked, float(np.log(newest["grad_var"] / newest["grad_sqr"])))
            found.append(said.assign(truth=truth(asked), keep=keep, every=0.0))
    return pd.concat(found, ignore_index=True)


def scores(rows: pd.DataFrame, jobs_of_one_batch: bool) -> pd.DataFrame:
    """Return a row of figures an application."""
    table = {}
    for name, own in rows.groupby("job"):
        others = rows[rows["job"] != name]
        model = EfficiencyModel().fit(as_jobs(others) if jobs_of_one_batch else others)
        a = answers(model, own)
        error = {rule: 100 * np.expm1(a[rule] - a["truth"]).abs() for rule in ("mean", "keep", "every")}
        table[name] = {
            "questions": len(a),
            "within": float(((a["truth"] >= a["lower"] - 1e-9) & (a["truth"] <= a["upper"] + 1e-9)).mean()),
            "width": float(np.exp((a["upper"] - a["lower"]).median())),
            "median_error": float(error["mean"].median()),
            "mean_error": float(error["mean"].mean()),
            "keep_median": float(error["keep"].median()),
            "keep_mean": float(error["keep"].mean()),
            "every_mean": float(error["every"].mean()),
        }
    return pd.DataFrame(table).T


if __name__ == "__main__":
    measured = read_efficiency(Path(sys.argv[1]))
    for split, title in ((True, "history: jobs of one batch each"), (False, "history: jobs that ran at all batches")):
        figures = scores(measured, split)
        print(f"{title}\n{figures.round(3).to_string()}\nmean over applications")
        print(f"{figures.mean().round(3).to_string()}\n")
