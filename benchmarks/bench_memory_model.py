"""How often memory limits are exceeded, and how much they leave unused, by rolling origin.

    python benchmarks/bench_memory_model.py --data DIR                        # bitbrains, a day ahead
    python benchmarks/bench_memory_model.py --data DIR --set pods             # alibaba_genai, an hour ahead
    python benchmarks/bench_memory_model.py --data DIR --refit-every 7        # learned from the past alone

At each moment of a grid, one horizon apart, every container that has run for a horizon gets a limit from its own
past, and is judged by the horizon after. The model has learned from the other half of the containers: from all their
times, or, with ``--refit-every N``, each N moments anew from what was before. ``--seeds`` halves differently.
Intervals (95 %) draw containers again; the last table is against a fixed margin on the past maximum, tuned afterwards
to the same rate.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the Brain's process does, before numpy is imported

import pandas as pd

from convoy.brain.features.published.memory import bitbrains_usage, pods_usage
from convoy.brain.models.backtest.memory import (
    MARGIN,
    OURS,
    against_margin,
    by_container,
    memory_summary,
    memory_windows,
)
from convoy.brain.models.memory import AutopilotLike, MemoryModel

SETS = {"bitbrains": (bitbrains_usage, "bitbrains", "1d"), "pods": (pods_usage, "alibaba_genai", "1h")}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of public data sets")
    parser.add_argument("--set", choices=list(SETS), default="bitbrains", help="(default: %(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the halves (default: 0)")
    parser.add_argument("--refit-every", type=int, help="moments (default: learned once, from all times)")
    given = parser.parse_args()
    read, folder, horizon = SETS[given.set]
    usage = read(given.data / folder)
    for seed in given.seeds:
        methods = {OURS: MemoryModel(horizons=(), seed=seed), MARGIN: AutopilotLike()}
        windows = memory_windows(usage, horizon, methods=methods, seed=seed, refit_every=given.refit_every)
        found: pd.DataFrame = memory_summary(by_container(windows)).query("method == @OURS")
        print(f"\n{given.set}, seed {seed}:\n{found.round(4).to_string(index=False)}", flush=True)
        print(against_margin(windows).round(3).to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
