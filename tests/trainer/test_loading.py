"""Waiting for data: what a master hears of it, and loaders that are changed while training goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset

from convoy.core.api.errors import InvalidInput, InvalidSetting
from convoy.core.api.v1 import master_pb2 as pb
from convoy.core.api.v1.metrics_pb2 import SpeedSample
from convoy.trainer.loading import Loader, told_at_start
from convoy.trainer.place import Place
from convoy.trainer.sampler import GlobalSampler
from support.launches import COMMAND, script
from support.scripted_master import ScriptedMaster, serving

SLOW = """
import sys, time
import torch
from convoy.trainer import ElasticTrainer
from torch import nn
from torch.utils.data import Dataset

class Slow(Dataset):
    def __len__(self):
        return 640
    def __getitem__(self, row):
        time.sleep(0.02)  # as a disk would
        return torch.full((1,), float(row))

model = nn.Linear(1, 1)
still = torch.optim.SGD(model.parameters(), lr=0.0)
with ElasticTrainer(model, still, dataset_size=640, global_batch=16, checkpoint_every=0) as trainer:
    for batch, data in trainer.loaded(Slow(), int(sys.argv[1]), workers=1):
        assert data[:, 0].long().tolist() == batch.rows.tolist()
        trainer.step(trainer.model(data).square().mean())
"""


class Rows(Dataset[torch.Tensor]):
    def __len__(self) -> int:
        return 40

    def __getitem__(self, row: int) -> torch.Tensor:
        return torch.tensor(row)


def test_a_loader_gives_the_batches_of_the_position_whatever_loads_them() -> None:
    sampler = GlobalSampler(40, 6, seed=3)
    place = Place(rank=1, world=2)
    loader = Loader(Rows(), sampler, place, {"prefetch_factor": 3})
    before = torch.get_rng_state()
    for workers in (0, 2, 2, 1, 1, 0, 0, 3, 3, 3):
        assert loader.next(workers).tolist() == sampler.batch(1, 2).tolist()
        sampler.advance()
    loader.close()
    assert torch.equal(before, torch.get_rng_state())


def test_a_data_set_of_another_length_and_a_number_that_is_none_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"40 samples, the trainer's dataset_size is 41"):
        Loader(Rows(), GlobalSampler(41, 6), Place(), {})
    with pytest.raises(InvalidSetting, match="CONVOY_LOADER_WORKERS='many'"):
        told_at_start({"CONVOY_LOADER_WORKERS": "many"})
    assert (told_at_start({}), told_at_start({"CONVOY_LOADER_WORKERS": "3"})) == (None, 3)


def rate(window: SpeedSample) -> float:
    return window.samples / window.seconds


@pytest.mark.timeout(150)
def test_windows_tell_the_wait_and_more_loaders_make_it_shorter_at_once(tmp_path: Path) -> None:
    """Two processes, each with 8 rows of 20 ms a step: one loader needs 160 ms for them, four 40 ms."""
    path = script(tmp_path, SLOW)

    async def scenario() -> tuple[list[SpeedSample], int]:
        master = ScriptedMaster()
        async with serving(master) as port:
            env = {"DLROVER_MASTER_ADDR": f"127.0.0.1:{port}", "POD_NAME": "pod-0", "OMP_NUM_THREADS": "1"}
            arguments = ("--nnodes=1", "--nproc-per-node=2", str(path), "100000")
            agent = await asyncio.create_subprocess_exec(*COMMAND, *arguments, env=os.environ | env)
            try:
                await master.until(lambda: 0 in master.joined, "the node to join", timeout=40)
                await master.complete(1, 0)

                def steady(workers: int) -> list[SpeedSample]:
                    told = [sample for _, report in master.reports for sample in report.speed]
                    return [one for one in told if one.loader_workers == workers and not one.warming]

                slow = await master.until(lambda: steady(1), "a window with one loader", timeout=40)
                await master.direct(pb.Directive.TRAIN, 1, 0, loader_workers=4)
                before = slow[-1]

                def fast() -> list[SpeedSample]:
                    waits = [one for one in steady(4) if one.loader_wait < before.loader_wait / 1.5]
                    return [one for one in waits if rate(one) > 1.5 * rate(before)]

                await master.until(fast, "a window with four that waits less and is faster", timeout=40)
                pids = {pid for _, report in master.reports for pid in report.workers.pids}
                await master.direct(pb.Directive.YIELD, 1, 0)
                await master.complete(2, 0)

                def later() -> list[SpeedSample]:
                    told = [sample for _, report in master.reports for sample in report.speed]
                    return [one for one in told if one.round == 2]

                started_again = await master.until(later, "a window of the next round", timeout=40)
                await master.direct(pb.Directive.STOP, 2, 0)
                await asyncio.wait_for(agent.wait(), 30)
                return [before, started_again[0]], len(pids)
            finally:
                if agent.returncode is None:
                    agent.kill()

    (slow, started_again), processes = asyncio.run(scenario())
    step = 16 / rate(slow)
    assert 0.25 * step < slow.loader_wait < step  # on a busy machine the rest takes its time as well
    assert processes == 2  # no worker was restarted
    assert started_again.loader_workers == 4  # those that start later have the number as well


OWN = """
import time
import torch
from convoy.trainer import ElasticTrainer
from torch import nn

model = nn.Linear(1, 1)
still = torch.optim.SGD(model.parameters(), lr=0.0)
told = []
with ElasticTrainer(model, still, dataset_size=64, global_batch=16, checkpoint_every=0) as trainer:
    trainer._speed._window = 0.1
    trainer._link.tell = lambda kind, **fields: told.append(fields) if kind == "speed" else None
    workers = trainer.loader_workers(2) if ASKS else None
    for batch in trainer.batches(12):
        if ASKS:
            with trainer.loading():
                time.sleep(0.03)
        time.sleep(0.02)
        trainer.step(trainer.model(torch.ones(1, 1)).mean())
window = told[-1]
print(workers, window.get("loader_workers"), round(window.get("loader_wait", -1.0), 2))
"""


@pytest.mark.parametrize(
    ("asks", "environment", "expected"),
    [(True, {}, "2 2 0.03"), (True, {"CONVOY_LOADER_WORKERS": "5"}, "5 5 0.03"), (False, {}, "None None -1.0")],
)
def test_a_script_with_a_loader_of_its_own(
    tmp_path: Path, asks: bool, environment: dict[str, str], expected: str
) -> None:
    path = script(tmp_path, OWN.replace("ASKS", str(asks)))
    done = subprocess.run(
        [sys.executable, str(path)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
    )
    assert done.stdout.strip() == expected
