"""How long a killed worker stops training: Convoy's launcher beside torchrun, the same script, in turn, in one run.

    python benchmarks/bench_recovery.py             # three kills each, two workers on this machine
    python benchmarks/bench_recovery.py --kills 5

Both start examples/digits.py on two workers and have the second one killed by SIGKILL while it trains. Printed are
the seconds from launch to the first step, and from the kill to the next finished step, medians with the range, and
the ratio. torchrun runs with TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: without it some restarts never train again. Convoy
runs with CONVOY_PRELOAD=sklearn.datasets, as examples/digits-allreduce.yaml does: what its fork server has imported
needn't be imported again; torchrun has no such thing.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
LAUNCHERS = {
    "convoy": [str(BIN / "convoy-run"), "--standalone"],
    "torchrun": [str(BIN / "torchrun"), "--standalone"],
}
SCRIPT = ["--nproc-per-node=2", "--max-restarts=3", str(ROOT / "examples" / "digits.py"), "--steps=1000000"]
DEADLINE = 120.0


def steps(job_dir: Path) -> list[dict[str, Any]]:
    """Return what the processes logged of their finished steps, in the order of time."""
    lines = [line for path in (job_dir / "steps").glob("*.jsonl") for line in path.read_text().splitlines()]
    return sorted((one for one in map(json.loads, lines) if "event" not in one), key=lambda one: float(one["t"]))


def await_steps(job_dir: Path, after: float, count: int) -> list[dict[str, Any]]:
    """Wait until so many steps were finished after a moment, and return them."""
    until = time.monotonic() + DEADLINE
    while time.monotonic() < until:
        found = [one for one in steps(job_dir) if one["t"] > after]
        if len(found) >= count:
            return found
        time.sleep(0.05)
    raise SystemExit(f"{count} steps weren't finished within {DEADLINE:g} s")


def kill_one(launcher: str) -> tuple[float, float]:
    """Launch, kill a worker amid its steps; return seconds to the first step, and from the kill to the next one."""
    with tempfile.TemporaryDirectory(prefix="bench-recovery-") as folder:
        job_dir = Path(folder)
        environment = os.environ | {
            "CONVOY_JOB_DIR": folder, "CONVOY_PRELOAD": "sklearn.datasets", "OMP_NUM_THREADS": "1",
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
        }  # fmt: skip
        began = time.time()
        process = subprocess.Popen(
            [*LAUNCHERS[launcher], *SCRIPT],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            first = await_steps(job_dir, began, 1)[0]["t"] - began
            seen = await_steps(job_dir, began, 60)
            victim = next(one["pid"] for one in reversed(seen) if one["rank"] == 1)
            killed = time.time()
            os.kill(victim, signal.SIGKILL)
            # a step that was almost done may still be logged by the survivor: count those of new processes
            old = {one["pid"] for one in seen}
            while not (new := [one for one in steps(job_dir) if one["t"] > killed and one["pid"] not in old]):
                if time.time() - killed > DEADLINE:
                    raise SystemExit(f"{launcher}: no step within {DEADLINE:g} s of the kill")
                time.sleep(0.02)
            return first, new[0]["t"] - killed
        finally:
            tree = psutil.Process(process.pid).children(recursive=True)
            process.send_signal(signal.SIGKILL)
            for child in tree:
                child.kill() if child.is_running() else None
            process.wait()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=3, help="of each launcher (default: %(default)s)")
    kills = parser.parse_args().kills
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in LAUNCHERS}
    for _ in range(kills):
        for name in LAUNCHERS:
            taken[name].append(kill_one(name))
            print(f"{name}: first step {taken[name][-1][0]:.2f} s, recovery {taken[name][-1][1]:.2f} s", flush=True)
    for place, what in enumerate(("launch to first step", "worker killed to next step")):
        medians = {name: statistics.median(one[place] for one in rows) for name, rows in taken.items()}
        ranges = {name: [one[place] for one in rows] for name, rows in taken.items()}
        said = ", ".join(
            f"{name} {medians[name]:.2f} s ({min(ranges[name]):.2f} to {max(ranges[name]):.2f})" for name in LAUNCHERS
        )
        print(f"{what}: {said}; ratio {medians['convoy'] / medians['torchrun']:.2f}")


if __name__ == "__main__":
    main()
