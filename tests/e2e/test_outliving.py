"""A job of two workers outlives the loss of any part, and repeats at most the steps since its last checkpoint."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from convoy.core.api import names
from support.machine import Machine, alive, digits
from support.waiting import until

pytestmark = pytest.mark.timeout(200)
EVERY = 5  # steps between two checkpoints


@pytest.fixture
def job(here: Machine, tmp_path: Path) -> str:
    name = here.submit(tmp_path, digits("digits", workers=2))
    here.await_world(name, 2)
    here.await_more(name, 10)
    return name


def repeated(here: Machine, name: str) -> int:
    """Return how many steps were finished more than once."""
    steps = [(record.step, record.round) for record in here.records(name) if record.rank == 0]
    return len(steps) - len({step for step, _ in steps})


def check_ending(here: Machine, name: str, *, restarts: int, relaunches: int) -> None:
    """The job succeeds, counts what was lost, and kept its batch at every step."""
    here.finish(name)
    training = here.job(name).status.training
    assert (training.restarts or 0, training.relaunches or 0) == (restarts, relaunches)
    records = here.records(name)
    assert {record.global_batch for record in records} == {64}
    steps = {record.step for record in records}
    assert steps == set(range(1, max(steps) + 1))


def test_a_worker(here: Machine, job: str) -> None:
    before = here.records(job)[-1]
    victim = before.pid
    os.kill(victim, signal.SIGKILL)
    until(lambda: here.records(job)[-1].round > before.round, "another round", timeout=30.0)
    here.await_more(job)
    assert here.records(job)[-1].world == 2
    assert repeated(here, job) <= EVERY
    check_ending(here, job, restarts=1, relaunches=0)


def test_the_master(here: Machine, job: str) -> None:
    [master] = here.pods(job, names.MASTER)
    pids = {record.pid for record in here.records(job)}
    os.kill(here.pid(master), signal.SIGKILL)
    epoch = here.job(job).status.master.epoch
    until(lambda: here.job(job).status.master.epoch > epoch, "a new master", timeout=30.0, every=0.1)
    here.await_more(job)
    assert {record.pid for record in here.records(job)} == pids
    assert repeated(here, job) == 0
    check_ending(here, job, restarts=0, relaunches=0)


@pytest.mark.long
def test_a_node(here: Machine, job: str) -> None:
    victim = here.pods(job)[-1]
    here.kill_node(victim)
    until(lambda: here.records(job)[-1].world == 1, "training on with one", timeout=30.0)
    here.await_world(job, 2)
    here.await_more(job)
    assert victim.name not in {pod.name for pod in here.pods(job)}
    assert repeated(here, job) <= EVERY
    check_ending(here, job, restarts=0, relaunches=1)


@pytest.mark.long
@pytest.mark.parametrize("what", ["operator", "brain"])
def test_the_operator_or_the_brain(here: Machine, job: str, what: str) -> None:
    """Training doesn't notice. The operator is started again by the next command, the Brain by the kubelet."""
    find: Callable[[], int | None] = {"operator": here.operator_pid, "brain": here.brain_pid}[what]
    pids = {record.pid for record in here.records(job)}
    victim = find()
    assert victim is not None
    os.kill(victim, signal.SIGKILL)
    until(lambda: not alive(victim), f"the end of the {what}", timeout=30.0)
    here.await_more(job, 30)
    assert {record.pid for record in here.records(job)} == pids
    if what == "operator":
        from convoy.cli.local import Operator

        Operator(here.state_dir).ensure()
    until(lambda: (pid := find()) is not None and pid != victim and alive(pid), f"another {what}", timeout=30.0)
    check_ending(here, job, restarts=0, relaunches=0)
