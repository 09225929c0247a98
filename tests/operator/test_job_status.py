"""A job's phase and conditions follow from what is observed; what ended stays ended and is cleared away."""

import pytest

from convoy.core.api import names
from convoy.core.api.errors import ClusterError
from convoy.core.cluster.port import Kind
from support.operator_world import World, job_manifest, plan_manifest, pod_meta


def phases(world: World) -> list[str]:
    """Return the types of the phase conditions that are True."""
    every = ("Created", "Pending", "Running", "Scaling", "Restarting", "Succeeded", "Failed")
    return [one["type"] for one in world.status["conditions"] if one["type"] in every and one["status"] == "True"]


def test_pods_that_are_planned_and_not_there_yet_are_counted_as_initial() -> None:
    world = World()
    world.settle()
    world.master_says(epoch=1, state="Waiting")
    world.settle()
    world.write_plan(plan_manifest(0, createPods=[pod_meta(0), pod_meta(1)]))
    world.write_plan(plan_manifest(1, epoch=0, createPods=[pod_meta(2)]))  # an older master's: it will be refused
    world.cluster.fail_next = ClusterError("no room")
    with pytest.raises(ClusterError):
        world.step()
    worker = world.status["replicaStatuses"]["worker"]
    assert (worker["initial"], worker["pending"]) == (2, 0)
    world.settle()
    worker = world.status["replicaStatuses"]["worker"]
    assert (worker["initial"], worker["pending"]) == (0, 2)


def test_a_jobs_phases_from_created_to_succeeded() -> None:
    world = World()
    told = []

    def tell() -> None:
        world.settle()
        told.append(world.status["phase"])
        assert phases(world) == [world.status["phase"]]

    tell()
    world.cluster.set_pod(names.master_pod("digits", 0), "Running")
    world.master_says(epoch=1, state="Waiting")
    world.write_plan(plan_manifest(0, createPods=[pod_meta(0), pod_meta(1)]))
    tell()
    world.cluster.set_pod("digits-edljob-worker-0", "Running")
    tell()
    world.cluster.set_pod("digits-edljob-worker-1", "Running")
    world.master_says(epoch=1, state="Running")
    tell()
    assert world.status["replicaStatuses"]["worker"] == {
        "initial": 0,
        "pending": 0,
        "active": 2,
        "succeeded": 0,
        "failed": 0,
    }
    world.write_plan(plan_manifest(1, createPods=[pod_meta(2)]))
    tell()
    world.cluster.set_pod("digits-edljob-worker-2", "Running")
    tell()
    for number in range(3):
        world.cluster.set_pod(f"digits-edljob-worker-{number}", "Failed", 137)
    tell()
    world.write_plan(plan_manifest(2, createPods=[pod_meta(3)]))
    tell()
    world.cluster.set_pod("digits-edljob-worker-3", "Running")
    tell()
    world.master_says(epoch=1, state="Succeeded")
    tell()
    assert told == [
        *("Created", "Pending", "Running", "Running", "Scaling", "Running"),
        *("Restarting", "Restarting", "Running", "Succeeded"),
    ]


def ended_world(state: str = "Succeeded") -> World:
    world = World()
    world.settle()
    world.cluster.set_pod(names.master_pod("digits", 0), "Running")
    world.master_says(epoch=1, state="Running")
    world.write_plan(plan_manifest(0, createPods=[pod_meta(0), pod_meta(1)]))
    world.settle()
    for number in range(2):
        world.cluster.set_pod(f"digits-edljob-worker-{number}", "Running")
    world.settle()
    world.write_plan(plan_manifest(1, createPods=[pod_meta(2)]))
    world.master_says(epoch=1, state=state, reason="AllNodesDone", message="done")
    world.settle()
    return world


@pytest.mark.parametrize("state", ["Succeeded", "Failed"])
def test_an_ended_job_gets_its_phase_and_time_and_its_plans_are_finished(state: str) -> None:
    world = ended_world(state)
    assert world.status["phase"] == state
    assert world.condition(state)["reason"] == "AllNodesDone"
    assert world.status["completionTime"]
    assert world.plan_status("digits-scaleplan-1")["phase"] == "Superseded"
    assert world.condition("MasterAvailable")["status"] == "False"


def test_its_pods_may_end_by_themselves_and_are_then_deleted_but_for_the_masters() -> None:
    world = ended_world()
    assert world.cluster.deleted == []
    for number in range(2):
        world.cluster.set_pod(f"digits-edljob-worker-{number}", "Succeeded", 0)
    world.cluster.set_pod(names.master_pod("digits", 0), "Succeeded", 0)
    world.settle()
    assert world.cluster.deleted == ["digits-edljob-worker-0", "digits-edljob-worker-1"]
    world.cluster.bury()
    world.settle()
    assert list(world.cluster.pods()) == [names.master_pod("digits", 0)]
    assert world.status["replicaStatuses"]["worker"]["succeeded"] == 2
    assert world.cluster.created.count(names.master_pod("digits", 1)) == 0


def test_pods_that_stay_are_deleted_after_a_farewell() -> None:
    world = ended_world()
    wait = world.decide().requeue_after
    assert wait is not None
    assert 0 < wait <= 10
    world.clock.advance(wait)
    world.settle()
    assert sorted(world.cluster.deleted) == [
        "digits-edljob-worker-0",
        "digits-edljob-worker-1",
        names.master_pod("digits", 0),
    ]
    assert world.decide().requeue_after is None


def test_what_is_deleted_is_left_alone() -> None:
    world = World()
    world.settle()
    world.cluster.objects["ElasticJob", "default", "digits"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    world.cluster.vanish(names.master_pod("digits", 0))
    assert world.settle() == []


def test_a_manifest_that_passed_no_validation_fails_with_its_path() -> None:
    wrong = job_manifest()
    wrong["spec"]["replicaSpecs"]["worker"]["replicas"] = "many"
    world = World(wrong)
    world.settle()
    assert world.status["phase"] == "Failed"
    assert world.condition("Failed")["reason"] == "InvalidManifest"
    assert "spec.replicaSpecs.worker.replicas" in world.condition("Failed")["message"]
    assert "'many'" in world.condition("Failed")["message"]
    assert world.status["completionTime"]
    assert world.cluster.pods() == {}


def test_a_refused_job_says_what_is_still_wrong_and_begins_when_it_is_corrected() -> None:
    world = World(job_manifest(optimizeMode="wild"))
    world.settle()
    spec = world.cluster.objects["ElasticJob", "default", "digits"]["spec"]
    spec["optimizeMode"], spec["brainService"] = "manual", "nowhere"
    world.settle()
    for kind in ("Failed", "ManifestValid"):
        assert "spec.brainService" in world.condition(kind)["message"]
        assert "optimizeMode" not in world.condition(kind)["message"]
    assert (world.status["phase"], world.cluster.pods()) == ("Failed", {})
    del spec["brainService"]
    world.settle()
    assert (world.status["phase"], phases(world)) == ("Created", ["Created"])
    assert world.condition("ManifestValid")["status"] == "True"
    assert "completionTime" not in world.status
    assert world.masters() == [names.master_pod("digits", 0)]


def test_a_job_that_was_made_wrong_while_suspended_is_refused_and_nothing_is_started() -> None:
    world = World(job_manifest(suspend=True))
    world.settle()
    world.cluster.objects["ElasticJob", "default", "digits"]["spec"]["optimizeMode"] = "wild"
    world.settle()
    assert (world.status["phase"], world.cluster.pods()) == ("Failed", {})


def test_a_parameter_server_job_is_refused_clearly() -> None:
    world = World(job_manifest(distributionStrategy="ParameterServerStrategy"))
    world.settle()
    assert world.status["phase"] == "Failed"
    assert "spec.distributionStrategy" in world.condition("Failed")["message"]
    assert "AllreduceStrategy" in world.condition("Failed")["message"]


def test_a_running_job_that_is_made_invalid_goes_on_and_says_what_is_wrong() -> None:
    world = World()
    world.settle()
    world.master_says(epoch=1, state="Running")
    world.write_plan(plan_manifest(0, createPods=[pod_meta(0)]))
    world.settle()
    spec = world.cluster.objects["ElasticJob", "default", "digits"]["spec"]
    spec["optimizeMode"] = "wild"
    world.settle()
    assert world.workers() == ["digits-edljob-worker-0"]
    assert world.status["phase"] in ("Restarting", "Running")
    assert "spec.optimizeMode" in world.condition("ManifestValid")["message"]
    assert world.condition("ManifestValid")["status"] == "False"
    world.cluster.set_pod(names.master_pod("digits", 0), "Failed", 137)
    name = world.write_plan(plan_manifest(1, createPods=[pod_meta(1)]))
    world.settle()
    assert world.masters() == [names.master_pod("digits", 1)], "a lost master is followed by the next one"
    assert world.plan_status(name)["phase"] == "Succeeded"
    made = world.cluster.pods()["digits-edljob-worker-1"]["spec"]["containers"][0]
    assert made["command"] == ["dlrover-run", "train.py"]
    assert world.condition("ManifestValid")["status"] == "False"
    assert not world.step(), "and it comes to rest"
    spec["optimizeMode"] = "cluster"
    world.settle()
    assert world.condition("ManifestValid")["status"] == "True"


def test_a_role_that_cannot_be_read_any_more_has_its_plans_wait() -> None:
    world = World()
    world.settle()
    world.master_says(epoch=1, state="Running")
    world.write_plan(plan_manifest(0, createPods=[pod_meta(0), pod_meta(1)]))
    world.settle()
    worker = world.cluster.objects["ElasticJob", "default", "digits"]["spec"]["replicaSpecs"]["worker"]
    right = worker["template"]
    worker["template"] = {"spec": {"containers": "none"}}
    removing = world.write_plan(plan_manifest(1, removePods=[pod_meta(1)]))
    world.cluster.set_pod(names.master_pod("digits", 0), "Failed", 137)
    world.settle()
    assert world.masters() == [names.master_pod("digits", 1)]
    assert world.plan_status(removing)["phase"] == "Succeeded"
    name = world.write_plan(plan_manifest(2, createPods=[pod_meta(2)]))
    world.settle()
    condition = world.plan_status(name)["conditions"][0]
    assert (world.plan_status(name)["phase"], condition["reason"]) == ("Pending", "InvalidManifest")
    assert "replicaSpecs.worker.template" in condition["message"]
    worker["template"] = right
    world.settle()
    assert world.plan_status(name)["phase"] == "Succeeded"
    assert world.workers() == ["digits-edljob-worker-0", "digits-edljob-worker-2"]


def test_a_status_that_cannot_be_read_costs_its_fields_alone() -> None:
    world = World()
    world.settle()
    status = world.cluster.objects["ElasticJob", "default", "digits"]["status"]
    status["ofANewerVersion"] = {"x": 1}
    status["training"] = {"state": "Running", "unknown": 1}
    status["phase"] = "Succeeded"
    assert [type(action).__name__ for action in world.settle()].count("CreateObject") == 0
    assert world.status["phase"] == "Succeeded"


def test_a_pod_that_fits_on_no_node_is_told() -> None:
    from datetime import UTC, datetime

    from convoy.core.api.resources import Capacity, Room
    from convoy.operator.job import decide
    from convoy.operator.observe import observe

    job = job_manifest()
    job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": 64}
    }
    world = World(job)
    world.settle()
    seen, _ = observe(world.cluster, "default", "digits", Capacity(Room(2, 1 << 33), Room(2, 1 << 33)))
    assert seen is not None
    world.executor.run(decide(seen, world.site, datetime.fromtimestamp(world.clock.now(), UTC)).actions)
    assert world.condition("Schedulable")["reason"] == "ExceedsNodes"
    assert "64 cores" in world.condition("Schedulable")["message"]


def test_jobs_are_told_apart_by_namespace() -> None:
    world = World()
    other = job_manifest()
    other["metadata"]["namespace"] = "b"
    world.cluster.create(other, field_manager="convoy-cli")
    world.settle()
    assert world.cluster.list(Kind.POD, "b").items == []
