"""Each kind of process of a running job is killed at random moments; the job succeeds all the same.

``CONVOY_TEST_KILLS`` says how often each is killed (3), ``CONVOY_TEST_SEED`` when.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from convoy.cli.local import Operator
from convoy.core.api import names
from support.machine import Machine, alive, digits
from support.waiting import until

KILLS = int(os.environ.get("CONVOY_TEST_KILLS", "3"))
SEED = int(os.environ.get("CONVOY_TEST_SEED", "1"))
KINDS = ("worker", "agent", "node", "master", "operator", "brain")


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_moments(here: Machine, tmp_path: Path, kind: str) -> None:
    dice = random.Random(f"{kind}{SEED}")
    job = here.submit(tmp_path, digits("chaos", workers=2, worker__restartCount=1000))
    operator = Operator(here.state_dir)
    here.await_step(job, 1)
    for count in range(KILLS):
        time.sleep(dice.uniform(0.0, 4.0))
        before = here.last_step(job)
        _kill(here, job, kind, operator, dice)
        operator.ensure()
        until(
            lambda before=before: here.last_step(job) >= before + 5,
            f"steps after kill {count + 1} of the {kind}",
            timeout=90.0,
            every=0.2,
        )
    _running(here, operator)
    here.finish(job, timeout=60.0)
    records = here.records(job)
    assert {record.global_batch for record in records} == {64}
    steps = {record.step for record in records}
    assert steps == set(range(1, max(steps) + 1))


@pytest.mark.long
def test_a_node_whose_agent_is_silent_while_it_trains_never_trains_beside_its_replacement(
    here: Machine, tmp_path: Path
) -> None:
    job = here.submit(tmp_path, digits("silent", workers=1))
    here.await_step(job, 1)
    old = here.pods(job)[0]
    os.kill(here.pid(old), signal.SIGSTOP)
    before = here.last_step(job)
    until(lambda: here.last_step(job) >= before + 5, "steps of the node that is silent", timeout=15.0)
    until(lambda: _pods_of(here, job) - {old.name}, "a replacement that trains", timeout=60.0, every=0.2)
    here.await_more(job)
    records = here.records(job)
    first = min(record.t for record in records if record.pod != old.name)
    assert max(record.t for record in records if record.pod == old.name) < first
    assert here.job(job).status.training.relaunches == 1
    here.finish(job)


def _pods_of(here: Machine, job: str) -> set[str]:
    return {record.pod for record in here.records(job)}


def _kill(here: Machine, job: str, kind: str, operator: Operator, dice: random.Random) -> None:
    if kind == "worker":
        latest = here.records(job)[-1].round
        pids = sorted({record.pid for record in here.records(job) if record.round == latest})
        victims = [dice.choice(pids)]
    elif kind in ("agent", "node"):
        pod = dice.choice(until(lambda: here.pods(job), "a running node", timeout=60.0))
        if kind == "node":
            here.kill_node(pod)
            return
        victims = [here.pid(pod)]
    elif kind == "master":
        victims = [here.pid(until(lambda: here.pods(job, names.MASTER), "a running master", timeout=60.0)[0])]
    elif kind == "operator":
        victims = [_running(here, operator)]
    else:
        victims = [until(here.brain_pid, "a Brain", timeout=60.0)]
    for victim in victims:
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:  # it ended by itself in between: its end is as good
            continue
        # While it dies it still holds its locks, and would be taken for one that runs.
        until(lambda victim=victim: not alive(victim), f"the end of the {kind}", timeout=30.0)


def _running(here: Machine, operator: Operator) -> int:
    """Return the operator's process, started again if it was lost."""

    def look() -> int | None:
        operator.ensure()
        return here.operator_pid()

    return until(look, "an operator", timeout=30.0) or 0
