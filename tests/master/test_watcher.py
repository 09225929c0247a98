"""A master heeds what its own job's objects say, not those of an earlier job of the same name."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from convoy.core.api import names
from convoy.core.api.job import ElasticJob
from convoy.core.cluster.local import open_cluster
from convoy.core.cluster.port import Cluster
from convoy.master.decide.events import Event, ManualPlanObserved, PlanObserved, PodObserved, PodsListed
from convoy.master.decide.state import Cause
from convoy.master.watcher import Watcher, manual_plan
from support.manifests import job as job_manifest


def other_job() -> dict[str, Any]:
    """A job that is still there, as an earlier namesake is until the cluster has cleared it away."""
    manifest = job_manifest()
    manifest["metadata"]["name"] = "earlier"
    return manifest


def owned(uid: str) -> list[dict[str, Any]]:
    return [{"apiVersion": names.API_VERSION, "kind": "ElasticJob", "name": "job", "uid": uid, "controller": True}]


def make_pod(cluster: Cluster, node_id: int, uid: str) -> None:
    labels = names.pod_labels("job", "worker", node_id=node_id, rank=0)
    metadata: dict[str, Any] = {"name": names.pod("job", "worker", node_id), "namespace": "default", "labels": labels}
    spec = {"containers": [{"name": "main", "command": ["true"]}]}
    metadata["ownerReferences"] = owned(uid)
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, field_manager="test")


def make_plan(cluster: Cluster, name: str, uid: str | None, **labels: str) -> None:
    metadata: dict[str, Any] = {"name": name, "namespace": "default", "labels": labels}
    if uid is not None:
        metadata["ownerReferences"] = owned(uid)
    spec = {"ownerJob": "job", "replicaResourceSpecs": {"worker": {"replicas": 2}}}
    cluster.create(
        {"apiVersion": names.API_VERSION, "kind": "ScalePlan", "metadata": metadata, "spec": spec},
        field_manager="test",
    )


def test_what_an_earlier_job_of_the_same_name_left_is_not_heeded(state_dir: Path) -> None:
    async def play() -> list[Event]:
        events: list[Event] = []

        async def post(event: Event) -> None:
            events.append(event)

        async def on_job(job: object) -> None:
            assert job is not None

        with open_cluster(state_dir) as cluster:
            uid = cluster.create(job_manifest(), field_manager="convoy-cli")["metadata"]["uid"]
            earlier = cluster.create(other_job(), field_manager="convoy-cli")["metadata"]["uid"]
            for number, owner in enumerate((uid, earlier)):
                make_pod(cluster, number, owner)
                make_plan(cluster, names.scale_plan("job", number), owner)
            make_plan(cluster, "persons", None, **{names.LABEL_SCALE_TYPE: names.SCALE_MANUAL})
            watcher = Watcher(cluster, "default", "job", uid, ElasticJob.from_manifest, post, on_job)
            await watcher.start()
            for number, owner in ((2, earlier), (3, uid)):
                make_pod(cluster, number, owner)
            async with asyncio.timeout(10):
                while not isinstance(events[-1], PodObserved):
                    await asyncio.sleep(0.02)
            await watcher.stop(10)
        return events

    events = asyncio.run(play())
    listed = next(event for event in events if isinstance(event, PodsListed))
    assert [pod.id for pod in listed.pods] == [0]
    assert [event.pod.id for event in events if isinstance(event, PodObserved)] == [3]
    assert [event.name for event in events if isinstance(event, PlanObserved)] == ["job-scaleplan-0"]
    assert [event.name for event in events if isinstance(event, ManualPlanObserved)] == ["persons"]


def test_a_plan_that_carries_a_recommendation_out_tells_its_numbers() -> None:
    plan: dict[str, Any] = {
        "apiVersion": names.API_VERSION,
        "kind": "ScalePlan",
        "metadata": {"name": "job-advice-1", "namespace": "default", "uid": "uid-1"},
        "spec": {
            "ownerJob": "job",
            "replicaResourceSpecs": {"worker": {"replicas": 4}},
            "explanation": {
                "reason": "MoreSpeed",
                "message": "twice as fast",
                "recommendation": "advice-1",
                "predictedSamplesPerSecond": 200.0,
                "predictedLower": 180.0,
            },
        },
    }
    event = manual_plan(plan)
    assert (event.replicas, event.problem) == (4, "")
    assert event.advice == Cause("MoreSpeed", "twice as fast", "advice-1", 200.0, 180.0, 0.0, 0.0)
    del plan["spec"]["explanation"]["recommendation"]
    assert manual_plan(plan).advice is None
