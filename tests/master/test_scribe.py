"""What a master writes never takes the job from a newer one, and is its own job's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from convoy.core.api import names
from convoy.core.api.errors import NotFound
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from convoy.core.cluster.local import open_cluster
from convoy.core.cluster.port import Cluster, Kind
from convoy.core.process.clock import SystemClock
from convoy.master import describe
from convoy.master.conductor import Conductor
from convoy.master.decide.events import PodsListed
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import JobState, Live, State
from convoy.master.scribe import Scribe
from support.manifests import job as job_manifest
from support.waiting import until


class Disk:
    def load(self, kind: str) -> dict[str, Any] | None:
        return None

    def save(self, kind: str, document: Mapping[str, Any]) -> None:
        """Everything fits."""


def epoch_of(cluster: Cluster) -> int:
    return int(cluster.get(Kind.ELASTIC_JOB, "default", "job")["status"]["master"]["epoch"])


def take(cluster: Cluster, epoch: int) -> None:
    """Another master takes the job."""
    metadata = {"name": "job", "namespace": "default"}
    status = {"master": {"epoch": epoch, "pod": "newer"}}
    cluster.apply_status(
        {"apiVersion": names.API_VERSION, "kind": "ElasticJob", "metadata": metadata, "status": status},
        field_manager=names.MANAGER_MASTER,
    )


class Interleaved:
    """The cluster, where a newer master takes the job between this one's read and its write."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.waits = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        found = self._cluster.get(kind, namespace, name)
        if self.waits:
            self.waits = False
            take(self._cluster, 2)
        return found


def master_of(cluster: Any, threads: ThreadPoolExecutor) -> tuple[Conductor, Scribe]:
    job = ElasticJob.from_manifest(cluster.get(Kind.ELASTIC_JOB, "default", "job"))
    clock = SystemClock()
    state = State(describe.facts(job, brain=False), JobState(epoch=1), Live(started_at=clock.now()))
    conductor = Conductor(state, Policy(), Disk(), threads, clock)
    return conductor, Scribe(cluster, conductor, "older", job.owner_reference(), None, lambda: None)


@pytest.mark.parametrize("interleaved", [False, True])
def test_a_newer_masters_epoch_is_never_lowered_and_ends_the_older_one(state_dir: Path, interleaved: bool) -> None:
    async def play() -> None:
        with open_cluster(state_dir) as cluster, ThreadPoolExecutor(1) as threads:
            cluster.create(job_manifest(), field_manager="convoy-cli")
            take(cluster, 1 if interleaved else 2)
            seen = Interleaved(cluster)
            seen.waits = False
            _, scribe = master_of(seen, threads)
            seen.waits = interleaved
            fenced: list[str] = []
            async with asyncio.timeout(10):
                await scribe.write_status(lambda: pytest.fail("the job is there"), fenced.append)
                await scribe.write_last_status(2.0)
            assert fenced == ["the job's epoch is 2, this master's is 1"]
            assert epoch_of(cluster) == 2
            scribe.close()

    asyncio.run(play())


def test_a_plan_of_an_earlier_job_is_waited_for_and_not_taken_for_this_ones(state_dir: Path) -> None:
    async def play() -> None:
        with open_cluster(state_dir) as cluster, ThreadPoolExecutor(1) as threads:
            cluster.create(job_manifest(), field_manager="convoy-cli")
            conductor, scribe = master_of(cluster, threads)
            await conductor.post(PodsListed(()))
            plan = conductor.state.job.plan
            assert plan is not None
            other = job_manifest()
            other["metadata"]["name"] = "earlier"  # its objects are there until the cluster has cleared them away
            uid = cluster.create(other, field_manager="convoy-cli")["metadata"]["uid"]
            earlier = {
                "apiVersion": names.API_VERSION,
                "kind": "ScalePlan",
                "metadata": {
                    "name": plan.name,
                    "namespace": "default",
                    "ownerReferences": [{**scribe._owner, "uid": uid}],
                },
                "spec": {"ownerJob": "job"},
            }
            cluster.create(earlier, field_manager="test")
            done = {"metadata": {"name": plan.name, "namespace": "default"}, "status": {"phase": "Succeeded"}}
            cluster.apply_status({**earlier, **done}, field_manager="test")
            writing = asyncio.ensure_future(scribe.write_plans())
            await asyncio.sleep(0.3)
            assert conductor.state.job.plan == plan, "it isn't carried out"
            cluster.delete(Kind.SCALE_PLAN, "default", plan.name)

            def ours() -> bool:
                try:
                    found = cluster.get(Kind.SCALE_PLAN, "default", plan.name)
                except NotFound:
                    return False
                return bool(found["metadata"]["ownerReferences"][0]["uid"] == scribe._owner["uid"])

            await asyncio.to_thread(until, ours, "this job's plan")
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            scribe.close()

    asyncio.run(play())
