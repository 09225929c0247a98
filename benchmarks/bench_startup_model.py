"""How right start-up resources are, beside three baselines, on jobs that are made up: no public data have templates.

    python benchmarks/bench_startup_model.py                           # 5 made-up clusters of 300 jobs
    python benchmarks/bench_startup_model.py --clusters 20 --jobs 1000

SIMULATED truth. Each template has sizes and features of its own; what a job needs follows from them with noise:
memory and servers from the model's parameters and the batch, workers from the samples of the dataset. Users ask for
more than they need, each by a factor of his own. Printed are, with single jobs and with whole templates left out, the
mean absolute logarithm of recommended over right (0.69: wrong by a factor of two), its ratio to the template median's
with its spread over clusters, and the time of a fit.
"""

from __future__ import annotations

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the Brain's process does, before numpy is imported

import numpy as np
import pandas as pd

from convoy.brain.models.backtest.startup import startup_backtest
from convoy.brain.models.startup import StartupModel

GIB = float(2**30)
BEGIN = pd.Timestamp("2026-03-02", tz="UTC")


def made_up_jobs(number: int, seed: int, *, features: bool = True, noise: float = 0.15) -> pd.DataFrame:
    """Return jobs of a made-up cluster, with what they asked for and what turned out right.

    Args:
        number: of jobs.
        seed: of the cluster.
        features: whether a job's features, beside its template, make a difference.
        noise: standard deviation of the logarithm of what is right, around what follows from the features.
    """
    generator = np.random.default_rng(seed)
    templates = _templates(max(4, number // 12), generator)
    greed = np.exp(generator.normal(0.7, 0.5, 12))
    popularity = generator.dirichlet(np.full(len(templates), 0.7))
    rows = []
    for job in range(number):
        place = int(generator.choice(len(templates), p=popularity))
        user = int(generator.integers(0, len(greed)))
        rows.append(_job(job, place, templates[place], user, greed[user], features, noise, generator))
    return pd.DataFrame(rows)


def _templates(number: int, generator: np.random.Generator) -> list[dict[str, float]]:
    return [
        {
            "image": float(generator.integers(0, max(2, number // 3))),
            "ps": float(generator.random() < 0.5),
            "parameters": float(np.exp(generator.normal(17.0, 1.5))),
            "batch": float(2 ** generator.integers(5, 10)),
            "samples": float(np.exp(generator.normal(14.0, 1.0))),
            "memory": float(np.exp(generator.normal(0.0, 0.5))),
            "cpu": float(np.exp(generator.normal(1.2, 0.5))),
            "workers": float(np.exp(generator.normal(1.5, 0.5))),
        }
        for _ in range(number)
    ]


def _job(
    job: int,
    place: int,
    template: dict[str, float],
    user: int,
    greed: float,
    features: bool,
    noise: float,
    generator: np.random.Generator,
) -> dict[str, object]:
    spread = 1.0 if features else 0.0
    parameters = template["parameters"] * np.exp(spread * generator.normal(0.0, 0.5))
    batch = template["batch"] * 2.0 ** round(spread * generator.integers(-1, 2))
    samples = template["samples"] * np.exp(spread * generator.normal(0.0, 0.8))

    def about(value: float) -> float:
        return float(value * np.exp(generator.normal(0.0, noise)))

    servers = template["ps"] > 0
    workers = max(1.0, np.round(about(template["workers"] * (samples / 1.2e6) ** 0.5)))
    right = {
        "workers": workers,
        "ps": max(1.0, np.round(about(0.5 * workers**0.7 * (parameters / 2e7) ** 0.3))) if servers else 0.0,
        "worker_cpu": about(template["cpu"] * (batch / 128) ** 0.3),
        "worker_memory": about(GIB * (1.0 + 16 * parameters / 1e8 + template["memory"] * batch / 128)),
        "ps_cpu": about(template["cpu"] * 0.5 * (parameters / 2e7) ** 0.2) if servers else 0.0,
        "ps_memory": about(GIB * (0.5 + 24 * parameters / 1e8)) if servers else 0.0,
    }
    asked = {f"asked_{name}": value * greed * np.exp(generator.normal(0.0, 0.2)) for name, value in right.items()}
    for name in ("asked_workers", "asked_ps"):
        asked[name] = float(np.ceil(asked[name]))
    return {
        "job": f"job-{job}",
        "template": f"template-{place}",
        "image": f"image-{int(template['image'])}",
        "user": f"user-{user}",
        "strategy": "ps" if servers else "allreduce",
        "model_parameters": parameters,
        "batch_size": batch,
        "dataset_samples": samples,
        "completed_at": BEGIN + pd.Timedelta(hours=job),
        **right,
        **asked,
    }


def table(clusters: int, jobs: int, left_out: str, features: bool, asked: bool) -> pd.DataFrame:
    """Return mean errors by (target, method), and their ratio to the template median's over clusters."""
    parts = []
    for seed in range(clusters):
        made = made_up_jobs(jobs, seed, features=features)
        if not asked:
            made = made.drop(columns=[name for name in made.columns if name.startswith("asked_")])
        scores = startup_backtest(made, left_out)
        errors = scores.assign(error=scores["log_error"].abs()).pivot_table(
            index="target", columns="method", values="error", sort=False
        )
        parts.append(errors.assign(cluster=seed).set_index("cluster", append=True))
    errors = pd.concat(parts)
    found = errors.groupby("target", sort=False).mean()
    ratio = (errors["startup"] / errors["template_median"]).groupby("target", sort=False)
    return found.assign(ratio=ratio.mean(), least=ratio.min(), most=ratio.max())


def main() -> None:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=300)
    given = parser.parse_args()
    for left_out in ("job", "template"):
        for features, asked in ((True, False), (True, True), (False, False)):
            what = "features matter" if features else "features don't matter"
            told = "what was asked is told" if asked else "what was asked isn't told"
            print(f"\nSIMULATED; each {left_out} left out; {what}; {told}")
            print(table(given.clusters, given.jobs, left_out, features, asked).round(3).to_string())
    jobs = made_up_jobs(given.jobs, 0)
    begun = time.perf_counter()
    model = StartupModel().fit(jobs)
    fitted = time.perf_counter()
    model.recommend(jobs.head(100))
    ended = time.perf_counter()
    print(f"\nfit to {given.jobs} jobs: {fitted - begun:.2f} s; 100 recommendations: {ended - fitted:.3f} s")


if __name__ == "__main__":
    main()
