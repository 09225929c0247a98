"""Whole training runs: the same result however they were interrupted and by however many they were shared."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from convoy.core.api.v1 import master_pb2 as pb
from convoy.trainer.group import is_peer_lost
from support.launches import COMMAND, launch, script
from support.scripted_master import ScriptedMaster, serving
from support.waiting import until

EXAMPLES = Path(__file__).parents[2] / "examples"

TRAIN = """
import os, sys, time
import torch
from convoy.trainer import ElasticTrainer, worker_device
from torch import nn
steps, delay = int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0
torch.manual_seed(1)
device = worker_device()
x = torch.randn(101, 8, device=device)
y = x.sum(1, keepdim=True).sin()
dropout = nn.Dropout(0.1 if os.environ.get("WORLD_SIZE", "1") == "1" and "DROPOUT" in os.environ else 0.0)
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), dropout, nn.Linear(16, 1)).double().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.5)
with ElasticTrainer(
    model, optimizer, dataset_size=101, global_batch=32, scheduler=scheduler, checkpoint_every=5
) as trainer:
    for batch in trainer.batches(steps):
        trainer.step(((trainer.model(x[batch.rows].double()) - y[batch.rows]) ** 2).mean())
        time.sleep(delay)
"""


def logged(job_dir: Path) -> list[dict[str, Any]]:
    lines = [line for path in (job_dir / "steps").glob("*") for line in path.read_text().splitlines()]
    return sorted((json.loads(line) for line in lines), key=lambda one: one["t"])


def losses(job_dir: Path, rank: int = 0) -> list[tuple[int, float]]:
    return [(one["step"], one["loss"]) for one in logged(job_dir) if "event" not in one and one["rank"] == rank]


def alone(path: Path, job_dir: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
    job_dir.mkdir(exist_ok=True)
    environment = os.environ | {"CONVOY_JOB_DIR": str(job_dir), "OMP_NUM_THREADS": "1"} | (env or {})
    return subprocess.Popen([sys.executable, str(path), *arguments], env=environment)


def test_an_interrupted_run_equals_one_without(tmp_path: Path) -> None:
    path, env = script(tmp_path, TRAIN), {"DROPOUT": "1"}
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    first, second = alone(path, straight, "23", env=env), alone(path, broken, "23", "0.05", env=env)
    until(
        lambda: broken.is_dir() and (broken / "steps").is_dir() and len(losses(broken)) >= 13, "13 steps", timeout=50
    )
    second.kill()
    second.wait(10)
    assert alone(path, broken, "23", env=env).wait(50) == 0
    assert first.wait(50) == 0
    expected = dict(losses(straight))
    assert sorted(expected) == list(range(1, 24))
    found = losses(broken)
    assert {step for step, _ in found} == set(expected)
    for step, loss in found:
        assert loss == pytest.approx(expected[step], rel=1e-9), step
    restored = [one["step"] for one in logged(broken) if one.get("event") == "restored"]
    assert restored
    assert restored[0] % 5 == 0
    repeated = len(found) - len({step for step, _ in found})
    assert repeated < 5


def test_three_workers_take_the_steps_of_one(tmp_path: Path) -> None:
    path = script(tmp_path, TRAIN)
    one, three = tmp_path / "one", tmp_path / "three"
    single = alone(path, one, "12")
    three.mkdir()
    ended = launch("--nproc-per-node=3", path, "12", env={"CONVOY_JOB_DIR": str(three)})
    assert (ended.status, ended.err) == (0, "")
    assert single.wait(50) == 0
    expected = dict(losses(one))
    for rank in range(3):
        for step, loss in losses(three, rank):
            assert loss == pytest.approx(expected[step], abs=1e-9), (rank, step)
    steps = [entry for entry in logged(three) if "event" not in entry]
    assert len(steps) == 36
    assert {entry["global_batch"] for entry in steps} == {32}
    for _, group in itertools.groupby(
        sorted(steps, key=lambda entry: int(entry["step"])), lambda entry: entry["step"]
    ):
        assert sorted(entry["local_batch"] for entry in group) == [10, 11, 11]


@pytest.mark.timeout(120)
def test_a_job_grows_at_a_step_boundary_and_survives_a_killed_worker(tmp_path: Path) -> None:
    path, job_dir = script(tmp_path, TRAIN), tmp_path / "job"
    job_dir.mkdir()

    async def start(port: int, rank: int) -> asyncio.subprocess.Process:
        env = os.environ | {
            "DLROVER_MASTER_ADDR": f"127.0.0.1:{port}", "NODE_RANK": str(rank), "POD_NAME": f"pod-{rank}",
            "CONVOY_JOB_DIR": str(job_dir), "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        return await asyncio.create_subprocess_exec(
            *COMMAND, "--nnodes=1:2", "--max-restarts=3", str(path), "400", "0.03", env=env
        )

    async def scenario() -> None:
        master, group, directive = ScriptedMaster(), pb.WorkerGroup, pb.Directive
        async with serving(master) as port:
            agents = [await start(port, 0), await start(port, 1)]
            try:
                await master.until(lambda: {0, 1} <= set(master.joined), "both to be there", timeout=50)
                await master.complete(1, 0)
                await master.until(lambda: master.reports[-1][1].workers.step >= 7, "steps of one")
                await master.direct(directive.YIELD, 1, 0)
                await master.state(group.YIELDED, 1)
                await master.complete(2, 0, 1)
                await master.state(group.RUNNING, 2, sender="pod-1")
                grown = max(step for step, _ in losses(job_dir)) + 12
                await master.until(lambda: master.reports[-1][1].workers.step >= grown, "steps of two")
                victim = next(one["pid"] for one in logged(job_dir) if one["rank"] == 1)
                os.kill(victim, signal.SIGKILL)
                failed = await master.state(group.FAILED, 2, sender="pod-1")
                assert not failed.workers.failure.peer_lost
                await master.direct(directive.ABORT, 2, 0)
                await master.complete(3, 0, 1)
                await master.until(
                    lambda: any(
                        one["round"] == 3 and one["rank"] == 0 and "event" not in one for one in logged(job_dir)
                    ),
                    "steps of round 3",
                )
                (job_dir / "enough").write_text("")
                await master.direct(directive.STOP, 3, 0, 1)
                assert [await asyncio.wait_for(one.wait(), 20) for one in agents] == [0, 0]
            finally:
                for one in agents:
                    if one.returncode is None:
                        one.kill()
                        await one.wait()

    asyncio.run(scenario())
    steps = [one for one in logged(job_dir) if "event" not in one and one["rank"] == 0]
    assert {one["global_batch"] for one in logged(job_dir) if "event" not in one} == {32}
    before, after = ([one["step"] for one in steps if one["round"] == number] for number in (1, 2))
    assert before + after == list(range(1, len(before) + len(after) + 1)), "a step was repeated or left out"
    assert {one["world"] for one in steps if one["round"] == 2} == {2}
    again = [one["step"] for one in steps if one["round"] == 3]
    assert again[0] > after[-1] - 5
    assert again[0] <= after[-1] + 1


def test_digits_learns_and_ends_when_told(tmp_path: Path) -> None:
    env = {"CONVOY_JOB_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLES / "digits.py"), "--width=16", "--depth=2", "--global-batch=256"]
    done = subprocess.run([*command, "--steps=150"], env=os.environ | env, capture_output=True, text=True, check=True)
    words = done.stdout.split()
    assert words[:2] == ["step", "150:"]
    assert float(words[words.index("accuracy") + 1].rstrip(",")) > 0.9
    (tmp_path / "finish").write_text("")
    again = subprocess.run(
        [*command, "--steps=9000"], env=os.environ | env, capture_output=True, text=True, check=True
    )
    assert again.stdout.startswith("step 151:")


def test_only_what_others_do_is_a_lost_peer() -> None:
    gloo = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Connection closed by peer [127.0.0.1]:10654"
    assert is_peer_lost(RuntimeError(gloo))
    assert is_peer_lost(RuntimeError("NCCL error: remote process exited or there was a network error"))
    assert not is_peer_lost(RuntimeError("CUDA out of memory; connection closed by peer"))
    assert not is_peer_lost(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_peer_lost(ValueError("connection closed by peer"))
