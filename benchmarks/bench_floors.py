"""How right anything could be on the public measurements: what is left when all rows of a job are known.

    python benchmarks/bench_floors.py --data DIR        # dl2_ps and sia_allreduce in DIR; seconds

Columns, one row a job and one for their mean: ``noise``, standard deviation (%) of speed around a Gaussian process
(Matern 5/2 on logarithms) fitted to all rows; ``knows all``, regret (%, of the best *measured* speed, as
``convoy brain backtest`` counts it in P1) of choosing by that fit, which has seen every row it chooses among; ``knows
others``, regret of choosing by predictions of each row from all other rows, and ``error``, their median absolute
percentage error; ``luck``, by how much the best measured row of a choice is above that fit, on average (%);
``formula``, standard deviation (%) of speed around the physics' best fit to all rows of the job, and of that
``repeats``: of one configuration, measured again (sia_allreduce); ``cores``, ``error`` of a worker's cores in use.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the Brain's process does, before numpy is imported

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import least_squares
from scipy.spatial.distance import cdist

from convoy.brain.features.published.throughput import UNSCORED_GPUS, read_dl2_ps, read_sia_allreduce
from convoy.brain.models.backtest.choices import choices
from convoy.brain.models.backtest.data import usable
from convoy.brain.models.backtest.scores import regret
from convoy.brain.models.baselines.gaussian_process import log_scales
from convoy.brain.models.baselines.rows import rows_of
from convoy.brain.models.throughput.frame import configurations_of
from convoy.brain.models.throughput.kinds import FORMS, kind_of
from convoy.brain.models.throughput.physics import log_speed
from convoy.brain.models.throughput.prior import default_scope

Array = NDArray[np.float64]


def smooth(rows: pd.DataFrame) -> tuple[Array, Array]:
    """Return log speeds by a fit to all rows, and of each row by all others under the same scales."""
    known = rows_of(rows)
    features = known.features[:, known.features.std(axis=0) > 0]
    amplitude, *lengths, noise = np.exp(log_scales(features, known.log_speed))
    distance = np.sqrt(5.0) * cdist(features / lengths, features / lengths)
    covariance = amplitude**2 * (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    away = known.log_speed - known.log_speed.mean()
    inverse = cho_solve(cho_factor(covariance + max(noise, 1e-3) ** 2 * np.eye(len(away))), np.eye(len(away)))
    weights = inverse @ away
    return known.log_speed - away + covariance @ weights, known.log_speed - weights / np.diag(inverse)


def formula_error(rows: pd.DataFrame) -> float:
    """Return the standard deviation of log speed around the physics' best fit, weakly held to its defaults."""
    where, _ = configurations_of(rows)
    where = where.relative(float(np.exp(np.mean(np.log(where.unit)))))
    form = FORMS[kind_of(where)]
    scope = default_scope(form)
    speed = np.log(rows["throughput"].to_numpy(dtype=np.float64))
    spread = 0.02 / np.sqrt(np.diag(scope.covariance))  # a default counts as little as a row off by 2 %

    def wrong(theta: Array) -> Array:
        found = log_speed(form.full(theta[None]), where)[0]
        return np.concatenate([found - speed, spread * (theta - scope.mean)])

    fits = [least_squares(wrong, scope.mean + shift * form.level, method="lm") for shift in (-4.0, -2.0, 0.0)]
    best = min(fits, key=lambda fit: fit.cost)
    return float(np.sqrt(np.mean(best.fun[: len(speed)] ** 2)))


def floors(rows: pd.DataFrame) -> dict[str, float]:
    """Return one job's floors."""
    rows = usable(rows).reset_index(drop=True)
    truth = rows["throughput"].to_numpy(dtype=np.float64)
    fit, others = smooth(rows)
    sets = choices(rows)
    best = [one[np.argmax(truth[one])] for one in sets]
    found = {
        "rows": len(rows),
        "noise": 100 * float(np.std(np.log(truth) - fit)),
        "knows all": regret(truth, fit, sets),
        "knows others": regret(truth, others, sets),
        "error": float(100 * np.median(np.abs(np.exp(others) / truth - 1))),
        "luck": float(100 * np.mean(np.log(truth[best]) - fit[best])),
        "formula": 100 * formula_error(rows),
    }
    if "worker_cpu_used" in rows:
        cores = rows["worker_cpu_used"].to_numpy(dtype=np.float64)
        told = smooth(rows.assign(throughput=cores))[1]
        found["cores"] = float(100 * np.median(np.abs(np.exp(told) / cores - 1)))
    return found


def repeats(folder: Path) -> pd.Series[float]:
    """Return of each job of sia_allreduce the standard deviation (%) of speed within one configuration."""
    raw = pd.read_csv(folder / "sia_allreduce" / "sia_throughput.csv")
    raw = raw[~raw["gpu"].isin(UNSCORED_GPUS)]
    speed = pd.Series(np.log(raw["num_replicas"] * raw["local_bsz"] / raw["step_time"]), raw.index)
    configuration = [raw[name] for name in ("model", "gpu", "num_nodes", "num_replicas", "local_bsz")]
    grouped = speed.groupby(configuration)
    away, free = (speed - grouped.transform("mean")) ** 2, 1 - 1 / grouped.transform("size")
    job = raw["model"] + "-" + raw["gpu"]
    freedom = free.groupby(job).sum()
    variance = away.groupby(job).sum() / freedom.where(freedom > 0)
    return pd.Series(100 * np.sqrt(variance), variance.index)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of public data sets")
    folder = parser.parse_args().data
    for name, read in (("dl2_ps", read_dl2_ps), ("sia_allreduce", read_sia_allreduce)):
        frame = read(folder / name)
        found = pd.DataFrame({job: floors(rows) for job, rows in frame.groupby("job")}).T
        if name == "sia_allreduce":
            found["repeats"] = repeats(folder)
        found.loc["mean"] = found.mean()
        print(f"\n{name}:\n" + found.round(1).to_string())


if __name__ == "__main__":
    main()
