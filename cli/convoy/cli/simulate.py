"""``convoy brain simulate``: a workload on a simulated cluster, under one policy or several."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from convoy.cli.chatter import chatter_to_stderr
from convoy.cli.screen import counted, screen
from convoy.cli.simulate_table import comparison, table
from convoy.core.api.errors import InvalidSetting, Unusable

if TYPE_CHECKING:
    import pandas as pd

    from convoy.brain.simulate.cluster import Cluster
    from convoy.brain.simulate.outcome import Outcome
    from convoy.brain.simulate.policy import Policy
    from convoy.brain.simulate.truth import Truth
    from convoy.brain.simulate.workload import Submission

MOST_NODES = 1_000_000
COLUMNS = ("job", "submitted", "started", "completed", "restarts", "gpu_seconds")


@dataclass(frozen=True)
class Asked:
    """The command's options."""

    jobs: Path
    throughput: Path
    efficiency: Path
    cluster: Path
    policies: Sequence[str]
    output: Path | None
    history: Path | None
    restart_seconds: float
    interval: float
    seed: int
    noise: bool
    more_nodes: Sequence[str]
    quota: Sequence[str]
    failures: float
    repair_seconds: float
    checkpoint_seconds: float


@dataclass(frozen=True)
class _Stage:
    """What all policies share."""

    workload: list[Submission]
    cluster: Cluster
    truth: Truth
    quotas: dict[str, int]
    history: pd.DataFrame | None


def run(asked: Asked) -> None:
    """Simulate, print the measures, write what became of each job.

    Raises:
        InvalidSetting: an unknown policy, node type or user, or an output that can't be.
        InvalidInput: a file can't be used.
        DeadlineMissed: a policy leaves jobs without anything for ever.
        Unusable: the output can't be written.
    """
    # The matrices are small: BLAS threads would cost a policy's models several times the processor's time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from convoy.brain.simulate import inputs
    from convoy.brain.simulate.measures import measured, paired

    names = _policies(asked.policies)
    stage = _stage(asked)
    outputs = _outputs(asked.output, names)
    outcomes = [_simulated(name, asked, stage) for name in names]
    by_name = {job.job: job for job in stage.workload}
    prices = inputs.read_prices(asked.cluster)
    console = screen(wide=True)
    console.print(table([measured(one, by_name, stage.truth, prices) for one in outcomes]))
    if len(outcomes) > 1:
        first = outcomes[0]
        console.print(comparison(first.policy, {one.policy: paired(one, first) for one in outcomes[1:]}))
    for path, outcome in zip(outputs, outcomes, strict=False):
        _write(path, outcome)


def _policies(given: Sequence[str]) -> list[str]:
    from convoy.brain.simulate.policies import POLICIES

    for name in given:
        if name not in POLICIES:
            raise InvalidSetting(f"--policy {name}: expected one of {', '.join(POLICIES)}")
    return list(dict.fromkeys(given))


def _stage(asked: Asked) -> _Stage:
    from convoy.brain.simulate import inputs
    from convoy.brain.simulate.cluster import Cluster

    workload = inputs.read_jobs(asked.jobs)
    cluster = inputs.read_cluster(asked.cluster)
    more = _numbers("--more-nodes", asked.more_nodes, cluster.kinds, least=-len(cluster.nodes))
    if more:
        rows = [(kind, max(0, len(there) + more.get(kind, 0)), cluster.per_node(kind)) for kind, there in
                cluster.by_kind.items()]  # fmt: skip
        cluster = Cluster.of(rows)
        if not cluster.nodes:
            raise InvalidSetting(f"--more-nodes {', '.join(asked.more_nodes)}: no node is left; take fewer away")
    users = list(dict.fromkeys(job.user for job in workload if job.user))
    quotas = _numbers("--quota", asked.quota, users, least=1)
    truth = inputs.read_truth(
        asked.throughput, asked.efficiency, workload, cluster, noise=asked.noise, seed=asked.seed
    )
    return _Stage(workload, cluster, truth, quotas, _history(asked.history))


def _history(path: Path | None) -> pd.DataFrame | None:
    from convoy.brain.simulate.history import read_history

    if path is None:
        return None
    history, refused = read_history(path)
    if refused:
        screen(sys.stderr).print(f"{path}: {counted(len(refused), 'row')} left out; the first: {refused[0]}")
    return history


def _numbers(option: str, given: Sequence[str], known: Sequence[str], *, least: int) -> dict[str, int]:
    found = {}
    for one in given:
        name, _, number = one.rpartition("=")
        if name not in known:
            there = ", ".join(known) or "none: the jobs' file has no column user"
            raise InvalidSetting(f"{option} {one}: expected NAME=NUMBER with one of these names: {there}")
        try:
            found[name] = int(number)
        except ValueError:
            raise InvalidSetting(f"{option} {one}: {number!r} isn't a whole number") from None
        if not least <= found[name] <= MOST_NODES:
            raise InvalidSetting(f"{option} {one}: expected at least {least} and at most {MOST_NODES}")
    return found


def _simulated(name: str, asked: Asked, stage: _Stage) -> Outcome:
    from convoy.brain.simulate.engine import Settings, simulate
    from convoy.brain.simulate.failures import Failures

    rate = asked.failures
    failing = Failures(rate, asked.repair_seconds, asked.checkpoint_seconds, asked.seed) if rate > 0 else None
    settings = Settings(asked.interval, asked.restart_seconds, failing)
    with chatter_to_stderr(), _progress(name) as tell:
        policy = _policy(name, asked, stage)
        return simulate(name, policy, stage.workload, stage.cluster, stage.truth, settings, tell)


def _policy(name: str, asked: Asked, stage: _Stage) -> Policy:
    from convoy.brain.simulate.policies import POLICIES
    from convoy.brain.simulate.policy import Surroundings
    from convoy.brain.simulate.quota import WithQuotas

    surroundings = Surroundings(
        stage.cluster, stage.truth, asked.restart_seconds, asked.interval, asked.seed, stage.history
    )
    policy = POLICIES[name](surroundings)
    return WithQuotas(policy, stage.quotas) if stage.quotas else policy


@contextmanager
def _progress(name: str) -> Iterator[Callable[[float, int, int], None]]:
    """Show on a terminal how many jobs are complete; nothing where stderr is none."""
    columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=None, told="")

        def tell(now: float, done: int, jobs: int) -> None:
            told = f"{done} of {counted(jobs, 'job')} complete after {now / 3600:.1f} simulated hours"
            progress.update(task, completed=done, total=jobs, told=told)

        yield tell


def _outputs(path: Path | None, names: Sequence[str]) -> list[Path]:
    if path is None:
        return []
    if not path.parent.is_dir():
        raise InvalidSetting(f"--output {path}: no folder {path.parent}; make it first")
    if path.is_dir():
        raise InvalidSetting(f"--output {path}: is a folder; name a file in it")
    return [path] if len(names) == 1 else [path.with_stem(f"{path.stem}-{name}") for name in names]


def _write(path: Path, outcome: Outcome) -> None:
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            for job in outcome.jobs:
                times = (f"{time:.3f}" for time in (job.submitted, job.started, job.completed))
                writer.writerow([job.job, *times, job.restarts, f"{sum(job.gpu_seconds.values()):.3f}"])
    except OSError as error:
        raise Unusable(f"--output {path}: can't be written: {error}; name a file that can be") from error
    screen().print(f"{path}: {counted(len(outcome.jobs), 'job')} written")
