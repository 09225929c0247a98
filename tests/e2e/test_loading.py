"""A job whose steps wait for their data: the Brain sees it, and more processes load them from the next step on."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from convoy.brain.features import frames
from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.tables import JobEvent, Recommendation
from convoy.core.api import names
from convoy.core.api.errors import ConvoyError
from convoy.core.cluster.local.node import cores
from support import manifests
from support.command import convoy
from support.launches import script
from support.machine import Machine
from support.waiting import until

SLOW = """
import os, time
from pathlib import Path
import torch
from convoy.trainer import ElasticTrainer
from torch import nn
from torch.utils.data import Dataset

class Remote(Dataset):
    def __len__(self):
        return 3200
    def __getitem__(self, row):
        time.sleep(0.005)  # far away
        return torch.full((8,), float(row % 7))

model = nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
finish = Path(os.environ["CONVOY_JOB_DIR"]) / "finish"
with ElasticTrainer(model, optimizer, dataset_size=3200, global_batch=32, finish_file=finish) as trainer:
    for _, rows in trainer.loaded(Remote(), 1_000_000, workers=1):
        trainer.step(trainer.model(rows).square().mean())
"""


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.skipif(cores() < 2, reason="needs 2 cores: of one, none is idle for a second process")
def test_a_job_that_waits_for_its_data_gets_more_loaders_and_trains_faster(here: Machine, tmp_path: Path) -> None:
    """A process needs 0.16 s for a batch that is trained in next to nothing; two need half as long."""
    script(tmp_path, SLOW, "slow.py")
    command = ["dlrover-run", "--nnodes=1:1", "slow.py"]
    job = manifests.job("waits", container__command=command, worker__replicas=1)
    job["spec"]["optimizeMode"] = "cluster"
    job["spec"]["replicaSpecs"]["worker"] |= {"minReplicas": 1, "maxReplicas": 1}
    container = job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]
    container["resources"] = {"requests": {"cpu": "2", "memory": "4Gi"}}
    job["metadata"]["annotations"] = {names.ANNOTATION_WORKING_DIRECTORY: str(tmp_path)}
    name = here.submit(tmp_path, job)
    here.await_step(name, 10, timeout=100.0)
    engine = open_engine(f"sqlite:///{here.state_dir / 'brain.db'}")

    def told(workers: int, seconds: float) -> bool:
        try:
            known = frames.loader_wait(engine)
        except ConvoyError:  # the Brain is about to make its tables
            return False
        return bool(known.loc[known["loader_workers"].eq(workers), "window_seconds"].sum() >= seconds)

    until(lambda: told(1, 4.0), "windows with one loader", timeout=60.0)
    until(lambda: told(2, 6.0), "windows with two", timeout=120.0)
    waits = frames.loader_wait(engine).groupby("loader_workers")[["loader_wait", "step_seconds"]].mean()
    assert waits.loc[1, "loader_wait"] > 0.3 * waits.loc[1, "step_seconds"]
    assert waits.loc[2, "step_seconds"] < 0.75 * waits.loc[1, "step_seconds"]
    with reading(engine) as connection:
        evidence = connection.execute(sa.select(Recommendation.evidence)).scalars().all()
        messages = sa.select(JobEvent.message).where(JobEvent.reason == "LoadersChanged")
        (said,) = connection.execute(messages).scalars().all()
    (loaders,) = {one["loaders"]["workers"] for one in evidence if one["loaders"] and one["loaders"]["decided"]}
    assert loaders == 2
    assert "which 1 process of each worker loads; 2 are expected to make it" in said
    assert len({record.pid for record in here.records(name)}) == 1  # nothing was restarted
    explained = convoy("explain", name)
    assert "LoadersChanged" in explained.out
    here.finish(name, timeout=60.0)
    engine.dispose()
