"""Scale plans are carried out once, in order, and refused where they must be."""

from convoy.core.api.errors import ClusterError
from convoy.core.cluster.port import Kind
from convoy.operator.actions import ApplyJobReplicas, CreateObject, DeletePod
from convoy.operator.observe import observe
from convoy.operator.plan import KEPT_PLANS
from support.operator_world import World, job_manifest, plan_manifest, pod_meta


def world_at_work(epoch: int = 1) -> World:
    world = World()
    world.settle()
    world.master_says(epoch=epoch, state="Waiting")
    world.settle()
    return world


def test_a_plans_pods_are_created_with_names_labels_and_environment() -> None:
    world = world_at_work()
    node = {**pod_meta(3, rank=1, relaunch=2), "resource": {"memory": "2Gi"}}
    name = world.write_plan(plan_manifest(0, createPods=[pod_meta(0), node]))
    world.settle()
    pod = world.cluster.pods()["digits-edljob-worker-3"]
    main = pod["spec"]["containers"][0]
    env = {one["name"]: one.get("value", one.get("valueFrom")) for one in main["env"]}
    address = world.cluster.list(Kind.SERVICE).items[0]["status"]["address"]
    assert env["DLROVER_MASTER_ADDR"] == address
    assert (env["NODE_TYPE"], env["NODE_ID"], env["NODE_RANK"], env["NODE_NUM"]) == ("worker", "3", "1", "2")
    assert env["POD_NAME"] == "digits-edljob-worker-3"
    assert env["OMP_NUM_THREADS"] == "1"
    assert (env["CONVOY_WORKER_CPU"], env["CONVOY_WORKER_MEMORY"]) == ("1", str(2 << 30))
    assert env["CONVOY_JOB_TOKEN"] == {"secretKeyRef": {"name": "digits-convoy-token", "key": "token"}}
    assert main["command"] == ["dlrover-run", "train.py"]
    assert main["resources"] == {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}
    assert pod["spec"]["restartPolicy"] == "Never"
    labels = pod["metadata"]["labels"]
    assert labels["elasticjob.dlrover/rank-index"] == "1"
    assert labels["elasticjob.dlrover/relaunch-count"] == "2"
    assert world.plan_status(name)["phase"] == "Succeeded"
    assert world.plan_status(name)["conditions"][0]["reason"] == "CarriedOut"
    assert world.status["scalePlan"] == name


def test_plans_are_carried_out_oldest_first_each_by_what_the_one_before_made() -> None:
    world = world_at_work()
    for number in range(12):  # the order is that of their numbers, not of their letters
        world.write_plan(
            plan_manifest(number, createPods=[pod_meta(number)], removePods=[pod_meta(max(0, number - 1))])
        )
    world.settle()
    assert [name for name in world.cluster.created if "worker" in name] == [
        f"digits-edljob-worker-{number}" for number in range(12)
    ]
    assert world.workers() == ["digits-edljob-worker-11"]
    assert world.status["scalePlan"] == "digits-scaleplan-11"


def test_the_last_finished_plans_of_a_job_are_kept_and_older_ones_go() -> None:
    world = world_at_work()
    other = world.write_plan(plan_manifest(0, job="another", createPods=[pod_meta(0, job="another")]))
    for number in range(KEPT_PLANS + 5):
        world.write_plan(plan_manifest(number, createPods=[pod_meta(number)]))
        world.settle()
    left = {one["metadata"]["name"] for one in world.cluster.list(Kind.SCALE_PLAN).items}
    assert left == {other, *(f"digits-scaleplan-{number}" for number in range(5, KEPT_PLANS + 5))}
    assert world.status["scalePlan"] == f"digits-scaleplan-{KEPT_PLANS + 4}"


def test_the_plan_carried_out_last_is_kept_whatever_was_refused_since() -> None:
    world = world_at_work()
    carried_out = world.write_plan(plan_manifest(0, createPods=[pod_meta(0)]))
    world.settle()
    for number in range(1, KEPT_PLANS + 5):
        world.write_plan(plan_manifest(number, epoch=0, createPods=[pod_meta(number)]))
    world.settle()
    left = {one["metadata"]["name"] for one in world.cluster.list(Kind.SCALE_PLAN).items}
    assert carried_out in left
    assert len(left) == KEPT_PLANS + 1


def test_a_plan_half_carried_out_is_completed_and_nothing_is_done_twice() -> None:
    world = world_at_work()
    world.write_plan(plan_manifest(0, createPods=[pod_meta(0), pod_meta(1), pod_meta(2)]))
    decision = world.decide()
    world.executor.run(decision.actions[:2])  # the operator dies here
    world.settle()
    assert sorted(world.workers()) == [f"digits-edljob-worker-{number}" for number in range(3)]
    assert len(world.cluster.created) == len(set(world.cluster.created))
    world.executor.run(decision.actions)  # and once more, as a late operator would
    assert len(world.cluster.created) == len(set(world.cluster.created))


def test_pods_are_removed_once() -> None:
    world = world_at_work()
    world.write_plan(plan_manifest(0, createPods=[pod_meta(0), pod_meta(1)]))
    world.settle()
    for number in (1, 2):
        world.write_plan(plan_manifest(number, removePods=[pod_meta(1), pod_meta(1), pod_meta(9)]))
    world.settle()
    assert world.cluster.deleted == ["digits-edljob-worker-1"]
    assert world.plan_status("digits-scaleplan-2")["phase"] == "Succeeded"


def test_a_plan_of_a_lower_epoch_is_refused() -> None:
    world = world_at_work(epoch=5)
    old = world.write_plan(plan_manifest(0, epoch=4, createPods=[pod_meta(0)]))
    new = world.write_plan(plan_manifest(1, epoch=5, createPods=[pod_meta(1)]))
    world.settle()
    assert world.plan_status(old)["phase"] == "Failed"
    assert world.plan_status(old)["conditions"][0]["reason"] == "StaleEpoch"
    assert world.plan_status(new)["phase"] == "Succeeded"
    assert world.workers() == ["digits-edljob-worker-1"]


def test_what_is_wrong_in_a_plan_is_named() -> None:
    world = world_at_work()
    cases = {
        "EpochMissing": plan_manifest(0, epoch=None, createPods=[pod_meta(0)]),
        "spec.createPods[0].name": plan_manifest(1, createPods=[{**pod_meta(0), "name": "other"}]),
        "no role 'ps'": plan_manifest(2, createPods=[{**pod_meta(0), "type": "ps"}]),
        "no role 'dlrover-master'": plan_manifest(3, createPods=[{**pod_meta(0), "type": "dlrover-master"}]),
        "spec.createPods[0].id": plan_manifest(4, createPods=[{**pod_meta(0), "id": -1}]),
        "spec.nonsense": plan_manifest(5, nonsense=1),
    }
    for manifest in cases.values():
        world.write_plan(manifest)
    world.settle()
    for said, manifest in cases.items():
        status = world.plan_status(manifest["metadata"]["name"])
        condition = status["conditions"][0]
        assert status["phase"] == "Failed"
        assert said in (condition["reason"], *condition["message"].split(": ")) or said in condition["message"]
    assert world.workers() == []


def test_a_manual_plan_is_left_to_the_master() -> None:
    world = world_at_work()
    manifest = plan_manifest(0, epoch=None, replicaResourceSpecs={"worker": {"replicas": 4}})
    manifest["metadata"]["labels"] = {"scale-type": "manual"}
    name = world.write_plan(manifest)
    later = world.write_plan(plan_manifest(1, createPods=[pod_meta(0)]))
    world.settle()
    assert world.plan_status(name) == {}
    assert world.plan_status(later)["phase"] == "Succeeded"
    world.master_says(epoch=1, state="Succeeded")
    world.settle()
    assert world.plan_status(name)["phase"] == "Superseded"


def test_a_plan_without_its_job_waits_and_says_so_once() -> None:
    world = World(job_manifest("other"))
    world.name = "digits"
    name = world.write_plan(plan_manifest(0, createPods=[pod_meta(0)]))
    world.settle()
    assert world.plan_status(name)["phase"] == "Pending"
    assert world.plan_status(name)["conditions"][0]["reason"] == "JobNotFound"
    world.cluster.create(job_manifest(), field_manager="convoy-cli")
    world.settle()
    assert world.plan_status(name)["phase"] == "Succeeded"


def test_a_pod_that_the_cluster_refuses_is_told_on_the_plan() -> None:
    from datetime import UTC, datetime

    from convoy.operator import plan

    world = world_at_work()
    name = world.write_plan(plan_manifest(0, createPods=[pod_meta(0)]))
    world.cluster.fail_next = ClusterError("quota is used up", reason="Forbidden")
    failure = world.executor.run(world.decide().actions)
    assert failure is not None
    assert isinstance(failure.action, CreateObject)
    seen, _ = observe(world.cluster, "default", "digits")
    assert seen is not None
    world.executor.run(plan.blocked(seen, failure.error, datetime.now(UTC)).actions)
    condition = world.plan_status(name)["conditions"][0]
    assert (condition["status"], condition["reason"]) == ("False", "Forbidden")
    assert "quota is used up" in condition["message"]
    world.settle()
    assert world.plan_status(name)["phase"] == "Succeeded"


def test_a_pod_of_an_earlier_namesake_is_waited_for() -> None:
    world = world_at_work()
    foreign = {
        "kind": "Pod",
        "metadata": {
            "name": "digits-edljob-worker-0",
            "labels": {"elasticjob.dlrover/name": "digits", "elasticjob.dlrover/replica-type": "worker"},
            "ownerReferences": [{"uid": "other", "controller": True}],
        },
    }
    world.cluster.create(foreign, field_manager="x")
    name = world.write_plan(plan_manifest(0, createPods=[pod_meta(0)], removePods=[pod_meta(0)]))
    world.settle()
    assert world.plan_status(name)["conditions"][0]["reason"] == "NameTaken"
    assert not any(isinstance(action, DeletePod) for action in world.decide().actions)
    assert world.decide().requeue_after
    world.cluster.vanish("digits-edljob-worker-0")
    world.settle()
    assert world.plan_status(name)["phase"] == "Succeeded"


def test_a_pod_whose_rank_is_given_away_has_little_time_to_end() -> None:
    world = world_at_work()
    world.write_plan(plan_manifest(0, createPods=[pod_meta(0), pod_meta(1), pod_meta(2)]))
    world.settle()
    world.write_plan(
        plan_manifest(1, createPods=[pod_meta(3, rank=1, relaunch=1)], removePods=[pod_meta(1), pod_meta(2)])
    )
    graces = {action.name: action.grace_seconds for action in world.settle() if isinstance(action, DeletePod)}
    assert graces == {"digits-edljob-worker-1": 2.0, "digits-edljob-worker-2": None}
    assert world.cluster.graces == graces


def test_where_scale_is_served_the_number_is_written_into_a_job_whose_user_gave_none() -> None:
    def numbers(replicas: int | None, *, served: bool) -> list[int]:
        job = job_manifest()
        job["spec"]["replicaSpecs"]["worker"]["replicas"] = replicas
        if served:
            job["metadata"]["managedFields"] = []
        world = World(job)
        world.settle()
        world.master_says(epoch=1, state="Waiting")
        metas = [pod_meta(0), pod_meta(1)]
        world.write_plan(plan_manifest(0, createPods=metas, replicaResourceSpecs={"worker": {"replicas": 2}}))
        decided = [action for _ in range(3) for action in world.step()]
        return [action.replicas for action in decided if isinstance(action, ApplyJobReplicas)]

    assert numbers(None, served=True) == [2]
    assert numbers(2, served=True) == []
    assert numbers(None, served=False) == []
