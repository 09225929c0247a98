"""``convoy submit --local``: the control plane comes by itself, and the exit status says how the job ended."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from support import manifests
from support.command import convoy, start
from support.machine import Machine, digits
from support.waiting import until

pytestmark = pytest.mark.timeout(150)


def test_a_job_to_its_end(here: Machine, tmp_path: Path) -> None:
    file = manifests.write(tmp_path, digits("digits", "--steps=30"))
    done = convoy("submit", file, "--local", timeout=100)
    assert done.status == 0, done
    assert "job is Running" in done.out
    assert "job is Succeeded" in done.out
    [log] = [Path(line.strip()) for line in done.out.splitlines() if "digits-edljob-worker-0/" in line]
    assert log.is_file()
    assert here.operator_pid() is not None
    assert here.brain_pid() is not None
    steps = [record.step for record in here.records("digits")]
    assert steps == list(range(1, 31))
    shown = convoy("jobs").out
    assert "digits" in shown
    assert "Succeeded" in shown


@pytest.mark.long
def test_the_same_job_again(here: Machine, tmp_path: Path) -> None:
    """A job that is over makes room for another of its name."""
    file = manifests.write(tmp_path, digits("again", "--steps=5"))
    uids = set()
    for _ in range(2):
        assert convoy("submit", file, "--local", timeout=100).status == 0
        uids.add(here.job("again").metadata.uid)
    assert len(uids) == 2


def test_a_script_that_fails_shows_its_error(here: Machine, tmp_path: Path) -> None:
    script = "import sys\nprint('about to fail', flush=True)\nraise ValueError('no such batch')\n"
    command = ["dlrover-run", "--nnodes=1", "--max-restarts=0", "train.py"]
    file = manifests.write(tmp_path, manifests.job("failing", container__command=command), script)
    done = convoy("submit", file, "--local", timeout=100)
    assert done.status == 1, done
    assert "default/failing failed" in done.err
    assert "ValueError: no such batch" in done.err
    log = next(Path(line.strip()) for line in done.err.splitlines() if line.endswith(".log"))
    assert "about to fail" in log.read_text()


def test_detached_then_deleted(here: Machine, tmp_path: Path) -> None:
    name = here.submit(tmp_path, digits("detached"))
    here.await_step(name, 3)
    [agent] = [here.pid(pod) for pod in here.pods(name)]
    explained = convoy("explain", name).out
    assert f"{name}-edljob-worker-0" in explained
    done = convoy("delete", name)
    assert done.status == 0, done
    until(lambda: not os.path.exists(f"/proc/{agent}"), "the agent's end", timeout=5.0)
    assert "no jobs" in convoy("jobs").out


@pytest.mark.long
def test_ctrl_c_stops_the_waiting_and_not_the_job(here: Machine, tmp_path: Path) -> None:
    file = manifests.write(tmp_path, digits("goes-on"))
    waiting = start("submit", file, "--local")
    until(lambda: here.cluster.list("ElasticJob").items, "the job", timeout=20.0)  # type: ignore[arg-type]
    here.await_step("goes-on", 3)
    waiting.send_signal(signal.SIGINT)
    out, _ = waiting.communicate(timeout=10)
    assert waiting.returncode == 130
    assert "default/goes-on goes on" in out
    here.await_more("goes-on")
    here.finish("goes-on")
