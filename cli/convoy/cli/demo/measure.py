"""The sizes that the Brain could have chosen, measured without it: each a job of its own, sized by hand."""

from __future__ import annotations

import copy
import time
from pathlib import Path

from convoy.cli import database
from convoy.cli.demo import watch
from convoy.cli.demo.scenario import Scenario
from convoy.cli.screen import counted
from convoy.core.api import names
from convoy.core.api.meta import Manifest
from convoy.core.api.resources import Capacity
from convoy.core.cluster.port import Kind


def measure_sizes(run: Scenario) -> None:
    """Run each size up to the job's largest, as far as there are cores, and end each job after a while."""
    _end_brain(run)
    worker = run.example["spec"]["replicaSpecs"]["worker"]
    capacity = Capacity.from_nodes(run.stage.cluster.list(Kind.NODE).items)
    cores = int(capacity.total.cores) if capacity else 1
    most = min(worker["maxReplicas"], cores)
    run.story.unmeasured = too_large(worker["maxReplicas"], cores)
    run.stage.say(
        f"{'size 1 is' if most == 1 else f'sizes 1 to {most} are'} measured, "
        "each by a job of its own that the demo ends early in the same way"
        + (f"; {run.story.unmeasured}" if run.story.unmeasured else "")
    )
    for size in range(1, most + 1):
        _measure(run, size)


def too_large(largest: int, cores: int) -> str:
    """Return which sizes up to the largest aren't measured and why, empty where all are. A worker takes a core."""
    *most, last = [str(size) for size in range(cores + 1, largest + 1)] or [""]
    if not last:
        return ""
    sizes = f"{', '.join(most)} and {last} don't" if most else f"{last} doesn't"
    return f"{sizes} fit {counted(cores, 'core')}"


def _measure(run: Scenario, size: int) -> None:
    job = at_size(run.example, size)
    name = job["metadata"]["name"]
    run.stage.doing(f"measuring {counted(size, 'worker')}, unseen by the Brain")
    steps = run.submit(job)

    def trained() -> bool:
        ends = watch.last_steps(steps)
        first = watch.first_step(steps, ends[0].round) if ends else None
        return bool(first and ends[0].world == size and time.time() - first >= run.form.measure)

    run.stage.wait(trained, f"{run.form.measure:.0f} s of training at size {size}", 60.0)
    run.end(name, steps)
    run.story.measured.append({"workers": size, "steps": str(steps)})
    run.stage.say(f"measured {counted(size, 'worker')}: {speed(steps):.0f} samples/s")


def at_size(example: Manifest, size: int) -> Manifest:
    """Return the example as a job of its own, of that size, sized by hand."""
    job = copy.deepcopy(example)
    job["metadata"]["name"] = f"{example['metadata']['name']}-at-{size}"
    job["spec"]["optimizeMode"] = "manual"
    job["spec"]["replicaSpecs"]["worker"] |= {"replicas": size, "minReplicas": size, "maxReplicas": size}
    return job


def speed(steps: Path, skip: float = 2.0) -> float:
    """Return samples/s of process rank 0 after its first ``skip`` seconds of steps."""
    records = [record for record in watch.records(steps) if "event" not in record and record["rank"] == 0]
    times = [(record["t"], record["global_batch"]) for record in records if record["t"] >= records[0]["t"] + skip]
    return float(sum(batch for _, batch in times[1:]) / (times[-1][0] - times[0][0]))


def _end_brain(run: Scenario) -> None:
    """Take the Brain away, so that it sees nothing of what follows."""
    run.stage.cluster.delete(Kind.POD, names.SYSTEM_NAMESPACE, database.BRAIN, grace_seconds=5)
    run.stage.say("the Brain is sent home; what follows is unseen by it")
