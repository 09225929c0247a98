"""Fields of a job that the operator carries out itself: variables, priorities, who manages it, a suspended start."""

from __future__ import annotations

from typing import Any

import pytest

from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob, OptimizeMode
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Kind
from support.operator_world import World, job_manifest, plan_manifest, pod_meta


def world_of(role: Manifest | None = None, **spec: Any) -> World:
    """Return a job at work, with more in its spec and in its worker's role."""
    job = job_manifest(**spec)
    job["spec"]["replicaSpecs"]["worker"] |= role or {}
    world = World(job)
    world.settle()
    world.master_says(epoch=1, state="Waiting")
    world.settle()
    return world


def workers(world: World, count: int) -> list[Manifest]:
    """Return the pods of so many workers that a plan asked for."""
    metas = [pod_meta(number) for number in range(count)]
    world.write_plan(plan_manifest(0, createPods=metas, replicaResourceSpecs={"worker": {"replicas": count}}))
    world.settle()
    return list(world.cluster.pods("worker").values())


@pytest.mark.parametrize(
    ("priority", "classes"),
    [
        (None, [None] * 4),
        ("high", ["high"] * 4),
        ("low", ["low"] * 4),
        ("0.5", ["high", "high", "low", "low"]),
        ("0", ["low"] * 4),
        ("1.0", ["high"] * 4),
    ],
)
def test_a_priority_becomes_the_pods_class_and_a_fraction_that_of_the_first(
    priority: str | None, classes: list[str | None]
) -> None:
    pods = workers(world_of({"priority": priority} if priority else {}), 4)
    assert [pod["spec"].get("priorityClassName") for pod in pods] == classes


def test_the_jobs_variables_reach_its_nodes_behind_ours_and_before_the_templates() -> None:
    envs: Manifest = {
        "SHARED": {"name": "SHARED", "value": "all"},
        "OMP_NUM_THREADS": {"name": "OMP_NUM_THREADS", "value": "8"},
        "POD_NAME": {"name": "POD_NAME", "value": "mine"},
        "HOST": {"name": "HOST", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
    }
    world = world_of(envs=envs)
    (pod,) = workers(world, 1)
    env = pod["spec"]["containers"][0]["env"]
    assert env[-3:] == [envs["SHARED"], envs["HOST"], {"name": "OMP_NUM_THREADS", "value": "1"}]
    names = [one["name"] for one in env]
    assert len(names) == len(set(names))
    assert next(one for one in env if one["name"] == "POD_NAME")["value"] == "digits-edljob-worker-0"
    (master,) = world.cluster.pods("dlrover-master").values()
    assert "SHARED" not in {one["name"] for one in master["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize("valid", [True, False])
def test_a_job_that_another_controller_manages_is_left_alone(valid: bool) -> None:
    world = World(job_manifest(managedBy="kueue.x-k8s.io/multikueue", **({} if valid else {"colour": "red"})))
    assert world.settle() == []
    assert world.status == {}


def test_a_job_that_names_us_is_carried_out() -> None:
    assert world_of(managedBy="elastic.iml.github.io/convoy").masters() == ["elasticjob-digits-dlrover-master-0"]


def test_a_job_suspended_at_its_creation_starts_when_it_is_let_go() -> None:
    world = World(job_manifest(suspend=True))
    world.settle()
    assert (world.status["phase"], world.condition("Suspended")["status"]) == ("Suspended", "True")
    assert "startTime" not in world.status
    assert world.cluster.pods() == {}
    world.cluster.objects[Kind.ELASTIC_JOB, "default", "digits"]["spec"]["suspend"] = False
    world.settle()
    assert world.masters() == ["elasticjob-digits-dlrover-master-0"]
    assert (world.status["phase"], world.condition("Suspended")["status"]) == ("Created", "False")


def test_a_job_that_was_started_goes_on_and_says_that_it_cant_be_suspended() -> None:
    world = world_of()
    workers(world, 2)
    world.cluster.objects[Kind.ELASTIC_JOB, "default", "digits"]["spec"]["suspend"] = True
    world.settle()
    assert len(world.workers()) == 2
    said = world.condition("ManifestValid")
    assert (said["status"], said["reason"]) == ("False", "SuspendedTooLate")
    assert said["message"].startswith("spec.suspend: a job that was started can't be suspended")


def test_how_many_nodes_are_ready_stands_on_the_status_and_what_selects_them() -> None:
    world = world_of()
    assert world.status["ready"] == "0/0"
    workers(world, 3)
    assert world.status["ready"] == "0/3"
    world.cluster.set_pod("digits-edljob-worker-1", "Running")
    world.settle()
    assert world.status["ready"] == "1/3"
    assert world.status["selector"] == "elasticjob.dlrover/name=digits,elasticjob.dlrover/replica-type=worker"


@pytest.mark.parametrize(("policy", "told"), [("Always", True), ("OnFailure", True), ("Never", False), (None, False)])
def test_a_templates_restart_policy_becomes_never_which_is_told(policy: str | None, told: bool) -> None:
    job = job_manifest()
    if policy:
        job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["restartPolicy"] = policy
    world = World(job)
    world.settle()
    world.master_says(epoch=1, state="Waiting")
    (pod,) = workers(world, 1)
    assert pod["spec"]["restartPolicy"] == "Never"
    said = world.condition("RestartPolicyReplaced")
    assert bool(said) == told
    if told:
        assert (said["status"], said["reason"]) == ("True", "TakenForNever")
        assert said["message"].startswith(f"restartPolicy {policy} of replicaSpecs.worker is taken for Never")


def test_elastic_scheduling_turned_off_keeps_the_size() -> None:
    off = job_manifest(optimizeMode="cluster", enableElasticScheduling=False)
    assert ElasticJob.from_manifest(off).spec.mode is OptimizeMode.MANUAL
    on = job_manifest(optimizeMode="cluster", enableElasticScheduling=True)
    assert ElasticJob.from_manifest(on).spec.mode is OptimizeMode.CLUSTER


@pytest.mark.parametrize(
    ("role", "spec", "path"),
    [
        ({"restartTimeout": 60}, {}, "spec.replicaSpecs.worker.restartTimeout"),
        ({"BatchScheduler": "volcano"}, {}, "spec.replicaSpecs.worker.BatchScheduler"),
        ({"criticalNodes": "all"}, {}, "spec.replicaSpecs.worker.criticalNodes"),
        ({"priority": "middling"}, {}, "spec.replicaSpecs.worker.priority"),
        ({}, {"enableDynamicSharding": False}, "spec.enableDynamicSharding"),
        ({}, {"envs": {"A": {"name": "B"}}}, "spec.envs.A"),
        ({}, {"managedBy": "me"}, "spec.managedBy"),
        ({}, {"brainService": "http://brain:1"}, "spec.brainService"),
    ],
)
def test_what_is_not_carried_out_is_refused_by_its_path_without_an_api_server_too(
    role: Manifest, spec: Manifest, path: str
) -> None:
    job = job_manifest(**spec)
    job["spec"]["replicaSpecs"]["worker"] |= role
    with pytest.raises(InvalidManifest) as refused:
        ElasticJob.from_manifest(job)
    assert refused.value.path == path
