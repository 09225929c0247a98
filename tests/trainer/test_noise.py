"""The noise of gradients: what a master hears of it is that of the data."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import numpy as np
import pytest

from convoy.core.api.v1 import master_pb2 as pb
from support.launches import COMMAND, script
from support.scripted_master import ScriptedMaster, serving

STILL = """
import sys
import torch
from convoy.trainer import ElasticTrainer
from torch import nn
torch.manual_seed(1)
x = torch.randn(4096, 6)
y = x.sum(1, keepdim=True) + torch.randn(4096, 1)
model = nn.Linear(6, 1)
nn.init.zeros_(model.weight), nn.init.zeros_(model.bias)
each = -2 * (y - 0) * torch.cat([x, torch.ones(len(x), 1)], 1)   # a sample's gradient at zero weights
mean = each.mean(0)
print("TRUTH", float(mean.square().sum()), float((each - mean).square().sum(1).mean()), flush=True)
still = torch.optim.SGD(model.parameters(), lr=0.0)
with ElasticTrainer(
    model, still, dataset_size=4096, global_batch=32, checkpoint_every=0, gradient_noise=sys.argv[1] == "asked"
) as trainer:
    for batch in trainer.batches(100_000):
        trainer.step(((trainer.model(x[batch.rows]) - y[batch.rows]) ** 2).mean())
"""


def reported(tmp_path: Path, processes: int, asked: str) -> tuple[list[tuple[float, float]], tuple[float, float]]:
    """Return what three windows told of a model that stands still, and what is true of its gradients."""
    path = script(tmp_path, STILL)

    async def scenario() -> tuple[list[tuple[float, float]], str]:
        master = ScriptedMaster()
        async with serving(master) as port:
            env = {"DLROVER_MASTER_ADDR": f"127.0.0.1:{port}", "POD_NAME": "pod-0", "OMP_NUM_THREADS": "1"}
            arguments = ("--nnodes=1", f"--nproc-per-node={processes}", str(path), asked)
            agent = await asyncio.create_subprocess_exec(
                *COMMAND, *arguments, env=os.environ | env, stdout=asyncio.subprocess.PIPE
            )
            try:
                await master.until(lambda: 0 in master.joined, "the node to join", timeout=40)
                await master.complete(1, 0)

                def windows() -> list[tuple[float, float]]:
                    found = [sample for _, report in master.reports for sample in report.speed]
                    return [(sample.grad_sqr, sample.grad_var) for sample in found]

                await master.until(lambda: len(windows()) >= 3, "three windows of speed", timeout=60)
                await master.direct(pb.Directive.STOP, 1, 0)
                assert agent.stdout is not None
                text = (await asyncio.wait_for(agent.stdout.read(), 30)).decode()
                await asyncio.wait_for(agent.wait(), 20)
                return windows(), text
            finally:
                if agent.returncode is None:
                    agent.kill()

    told, text = asyncio.run(scenario())
    signal, variance = text.split("TRUTH ")[1].split()[:2]
    return told, (float(signal), float(variance))


@pytest.mark.timeout(150)
def test_windows_tell_signal_and_variance_also_of_uneven_shares(tmp_path: Path) -> None:
    told, (signal, variance) = reported(tmp_path, 3, "asked")
    assert np.mean([one[0] for one in told]) == pytest.approx(signal, rel=0.1)
    assert np.mean([one[1] for one in told]) == pytest.approx(variance, rel=0.1)


@pytest.mark.timeout(150)
@pytest.mark.parametrize(("processes", "asked"), [(1, "asked"), (2, "not")])
def test_nothing_is_told_of_one_process_or_where_nobody_asked(tmp_path: Path, processes: int, asked: str) -> None:
    told, _ = reported(tmp_path, processes, asked)
    assert set(told) == {(0.0, 0.0)}
