"""How often memory limits are exceeded, and how much they leave unused, by rolling origin; about a minute a seed.

    python benchmarks/bench_memory_model.py --data DIR                        # bitbrains, a day ahead
    python benchmarks/bench_memory_model.py --data DIR --set pods             # alibaba_genai, an hour ahead
    python benchmarks/bench_memory_model.py --data DIR --refit-every 7        # learned from the past alone

At each moment of a grid, one horizon apart, every container that has run for a horizon gets a limit from its own
past, and is judged by the horizon after. The model has learned from the other half of the containers: from all their
times, or, with ``--refit-every N``, each N moments anew from what was before. ``--seeds`` halves differently.
Intervals (95 %) draw containers again. ``convoy brain backtest --protocol memory`` asks the same of ``recommend``, of
one split in halves, beside other rules; here what is learned answers directly, in less time.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the Brain's process does, before numpy is imported

import numpy as np
import pandas as pd

from convoy.brain.features.published.memory import bitbrains_usage, pods_usage
from convoy.brain.models.backtest.memory import OURS, RATES, by_container, memory_summary
from convoy.brain.models.memory.limits import Heads
from convoy.brain.models.memory.usage import containers_of, seconds_of
from convoy.brain.models.memory.windows import SLOTS, Examples, Past, Slots, examples_of, slots_of

SETS = {"bitbrains": (bitbrains_usage, "bitbrains", "1d"), "pods": (pods_usage, "alibaba_genai", "1h")}
ALL = 10**6
"""Examples of one container: all that there are."""


def pasts(examples: Examples) -> list[Past]:
    """Return what was known at each of the examples' moments."""
    age = examples.origin / SLOTS
    columns = zip(examples.anchor, examples.largest, age, examples.features, strict=True)
    return [
        Past(float(anchor), float(largest), False, float(old), features) for anchor, largest, old, features in columns
    ]


def judged(slots: list[Slots], half: int, seed: int, refit_every: int | None) -> pd.DataFrame:
    """Return limits and needs of one half of the containers, learned from the other, as ``memory_windows`` does."""
    order = np.random.default_rng(seed).permutation(len(slots))
    parts = np.array_split(order, 2)
    asked = examples_of([slots[place] for place in parts[half]], ALL, young=False)
    others = [slots[place] for place in parts[1 - half]]
    horizon = asked.origin // SLOTS
    starts = [0] if refit_every is None else range(2, int(horizon.max()) + 1, refit_every)
    found = []
    for start in starts:
        end = start + (refit_every or ALL)
        before = [Slots(one.used[: start * SLOTS], one.killed[: start * SLOTS]) for one in others]
        head = Heads.learned(others if refit_every is None else before, seed).grown
        now = asked.take((horizon >= start) & (horizon < end))
        for rate in RATES:
            found.append(
                pd.DataFrame(
                    {
                        "method": OURS,
                        "oom_rate": rate,
                        "container": parts[half][now.container.astype(np.intp)],
                        "limit_bytes": np.exp(head.limits(pasts(now), rate)),
                        "needed_bytes": np.exp(now.needed),
                    }
                )
            )
    return pd.concat(found, ignore_index=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of public data sets")
    parser.add_argument("--set", choices=list(SETS), default="bitbrains", help="(default: %(default)s)")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="of the halves (default: 0)")
    parser.add_argument("--refit-every", type=int, help="moments (default: learned once, from all times)")
    given = parser.parse_args()
    read, folder, horizon = SETS[given.set]
    slots = [slots_of(one, seconds_of(horizon)) for one in containers_of(read(given.data / folder))]
    for seed in given.seeds:
        windows = pd.concat([judged(slots, half, seed, given.refit_every) for half in (0, 1)], ignore_index=True)
        found = memory_summary(by_container(windows)).drop(columns="method")
        print(f"\n{given.set}, seed {seed}:\n{found.round(4).to_string(index=False)}", flush=True)


if __name__ == "__main__":
    main()
