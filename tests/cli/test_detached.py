"""`submit --detach` returns once an operator has the job, also where the one that was there ended meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from convoy.cli.local import Operator
from convoy.cli.submit import await_operator
from convoy.core.api import names
from convoy.core.api.errors import DeadlineMissed
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.process.lock import ProcessLock
from support.manifests import job


@pytest.fixture
def cluster(state_dir: Path) -> Iterator[LocalCluster]:
    with closing(open_cluster(state_dir)) as opened:
        yield opened


class Ending(Operator):
    """An operator that ends at the third look; the next one takes the job."""

    def __init__(self, state_dir: Path, cluster: LocalCluster, old: ProcessLock) -> None:
        super().__init__(state_dir)
        self.cluster, self.old, self.looks, self.started = cluster, old, 0, 0

    def ensure(self) -> None:
        self.looks += 1
        if self.looks == 3:
            self.old.release()
        super().ensure()

    def _start(self) -> None:
        self.started += 1
        manifest = {
            "apiVersion": names.API_VERSION,
            "kind": "ElasticJob",
            "metadata": {"name": "job", "namespace": "default"},
            "status": {"phase": "Created"},
        }
        self.cluster.apply_status(manifest, field_manager="test")


def test_an_operator_that_was_ending_is_followed_by_another(cluster: LocalCluster, state_dir: Path) -> None:
    created = cluster.create(job(), field_manager="test")
    old = ProcessLock(state_dir / "operator.lock")
    assert old.acquire()
    operator = Ending(state_dir, cluster, old)
    await_operator(cluster, created, operator, seconds=10)
    assert (operator.looks, operator.started) == (3, 1)


def test_an_operator_that_takes_no_job_is_said(cluster: LocalCluster, state_dir: Path) -> None:
    created = cluster.create(job(), field_manager="test")
    with ProcessLock(state_dir / "operator.lock"), pytest.raises(DeadlineMissed, match=r"operator\.log"):
        await_operator(cluster, created, Operator(state_dir), seconds=0.2)
