"""A job's master is kept: the next index at once, slower only in a crash loop, and never at the workers' cost."""

from pathlib import Path

from convoy.core.api import names
from convoy.core.cluster.port import Kind
from convoy.operator.actions import CreateObject, EnsureTokenSecret
from support.operator_world import World, job_manifest, local_site, plan_manifest, pod_meta


def master(index: int) -> str:
    return names.master_pod("digits", index)


def running_world() -> World:
    world = World()
    world.settle()
    world.cluster.set_pod(master(0), "Running")
    world.master_says(epoch=1, state="Running")
    world.write_plan(plan_manifest(0, createPods=[pod_meta(0), pod_meta(1)]))
    world.settle()
    for name in world.workers():
        world.cluster.set_pod(name, "Running")
    world.settle()
    return world


def test_a_new_job_gets_a_token_a_service_and_a_master() -> None:
    world = World()
    world.settle()
    assert world.masters() == [master(0)]
    service = world.cluster.get(Kind.SERVICE, "default", names.master_service("digits"))
    secret = world.cluster.get(Kind.SECRET, "default", names.token_secret("digits"))
    uid = world.job["metadata"]["uid"]
    pod = world.cluster.pods()[master(0)]
    for one in (service, secret, pod):
        assert one["metadata"]["ownerReferences"][0]["uid"] == uid
    main = pod["spec"]["containers"][0]
    env = {one["name"]: one.get("value", one.get("valueFrom")) for one in main["env"]}
    assert main["command"] == ["convoy", "master", "--job", "digits", "--namespace", "default"]
    assert env["CONVOY_JOB_TOKEN"] == {"secretKeyRef": {"name": "digits-convoy-token", "key": "token"}}
    assert env["CONVOY_MASTER_PORT"] == str(service["spec"]["ports"][0]["port"])
    assert env["DLROVER_BRAIN_SERVICE_ADDR"] == "127.0.0.1:7"
    assert "CONVOY_BRAIN_TOKEN" not in env
    assert pod["metadata"]["annotations"]["convoy/nice"] == "5"
    assert world.condition("MasterAvailable")["reason"] == "MasterStarting"


def test_the_token_is_random_made_once_and_never_shown() -> None:
    tokens = []
    for _ in range(2):
        world = World()
        actions = world.settle()
        secret = world.cluster.get(Kind.SECRET, "default", names.token_secret("digits"))
        tokens.append(secret["data"]["token"])
        assert secret["data"]["token"] not in repr(actions)
        assert sum(isinstance(action, EnsureTokenSecret) for action in actions) == 1
    assert tokens[0] != tokens[1]
    assert len(tokens[0]) > 40


def test_the_brains_token_is_copied_when_there_is_one_and_when_it_changes() -> None:
    world = World()
    brain = {
        "kind": "Secret",
        "metadata": {"name": "convoy-brain-token", "namespace": "convoy-system"},
        "data": {"token": "YnJhaW4="},
    }
    world.cluster.create(brain, field_manager="convoy-cli")
    world.settle()
    secret = world.cluster.get(Kind.SECRET, "default", names.token_secret("digits"))
    token = secret["data"]["token"]
    assert secret["data"]["brain-token"] == "YnJhaW4="
    env = {one["name"]: one for one in world.cluster.pods()[master(0)]["spec"]["containers"][0]["env"]}
    assert env["CONVOY_BRAIN_TOKEN"]["valueFrom"]["secretKeyRef"]["key"] == "brain-token"

    world.cluster.apply({**brain, "data": {"token": "bmV3"}}, field_manager="convoy-cli")
    world.settle()
    secret = world.cluster.get(Kind.SECRET, "default", names.token_secret("digits"))
    assert secret["data"] == {"token": token, "brain-token": "bmV3"}


def test_a_lost_master_is_followed_by_the_next_index_and_no_worker_is_touched() -> None:
    world = running_world()
    workers, created, deleted = world.workers(), list(world.cluster.created), list(world.cluster.deleted)
    for index, lose in enumerate(("fail", "vanish", "delete", "end")):
        if lose == "vanish":
            world.cluster.vanish(master(index))
        elif lose == "delete":
            world.cluster.delete(Kind.POD, "default", master(index))
            deleted.append(master(index))
        else:
            world.cluster.set_pod(master(index), *(("Failed", 137) if lose == "fail" else ("Succeeded", 0)))
        world.clock.advance(100)
        actions = world.step()
        assert [action.name for action in actions if isinstance(action, CreateObject)] == [master(index + 1)]
        created.append(master(index + 1))
        assert world.condition("MasterAvailable")["status"] == "False"
        world.cluster.set_pod(master(index + 1), "Running")
        world.settle()
        assert world.condition("MasterAvailable")["reason"] == "MasterRunning"
    assert world.workers() == workers
    assert world.cluster.created == created
    assert [name for name in world.cluster.deleted if "worker" in name] == []
    assert world.status["phase"] == "Running"


def test_an_index_is_not_used_again_though_no_pod_of_it_is_left() -> None:
    world = World()
    world.settle()
    seen = set(world.masters())
    for _ in range(5):
        for name in list(world.cluster.pods()):
            world.cluster.vanish(name)
        world.clock.advance(100)
        world.settle()
        (new,) = world.masters()
        assert new not in seen
        seen.add(new)


def test_only_a_crash_loop_waits_and_the_wait_doubles_to_thirty_seconds() -> None:
    world = World()
    world.settle()
    waits = []
    for index in range(11):
        world.cluster.set_pod(master(index), "Failed", 1)
        waited = 0.0
        while not world.masters():
            decision = world.decide()
            world.step()
            if not world.masters():
                assert decision.requeue_after
                condition = world.condition("MasterAvailable")
                assert condition["reason"] == "MasterBackOff"
                assert "exit code 1" in condition["message"]
                world.clock.advance(decision.requeue_after + 1e-3)
                waited += decision.requeue_after
        waits.append(round(waited))
    assert waits == [0, 0, 0, 1, 2, 4, 8, 16, 30, 30, 30]

    world.clock.advance(61)  # this one lived: the loop is over
    world.cluster.set_pod(master(11), "Failed", 1)
    world.step()
    assert world.masters() == [master(12)]


def test_the_last_two_masters_that_ended_are_kept_for_their_logs() -> None:
    world = World()
    for index in range(6):
        world.settle()
        world.cluster.set_pod(master(index), "Running")
        world.settle()
        world.cluster.set_pod(master(index), "Failed", 1)
        world.clock.advance(100)
    world.settle()
    world.cluster.bury()
    assert sorted(world.cluster.pods(names.MASTER)) == [master(4), master(5), master(6)]


def test_of_two_masters_the_newer_one_stays() -> None:
    world = World()
    world.settle()
    second = world.cluster.pods()[master(0)]
    second["metadata"] = {
        **second["metadata"],
        "name": master(7),
        "uid": "u",
        "labels": names.pod_labels("digits", names.MASTER, node_id=7, rank=0),
    }
    world.cluster.objects["Pod", "default", master(7)] = second
    world.settle()
    assert world.masters() == [master(7)]
    world.cluster.set_pod(master(7), "Failed", 1)
    world.step()
    assert world.masters() == [master(8)]


def test_a_masters_template_keeps_resources_and_placement_and_the_condition_says_what_is_replaced() -> None:
    job = job_manifest()
    job["spec"]["replicaSpecs"]["dlrover-master"] = {
        "template": {
            "metadata": {"labels": {"team": "a"}},
            "spec": {
                "nodeSelector": {"pool": "small"},
                "containers": [
                    {
                        "name": "main",
                        "image": "theirs",
                        "command": ["python"],
                        "args": ["-m", "x"],
                        "resources": {"requests": {"cpu": "2"}},
                        "env": [{"name": "A", "value": "b"}],
                    }
                ],
            },
        }
    }
    world = World(job)
    world.settle()
    pod = world.cluster.pods()[master(0)]
    main = pod["spec"]["containers"][0]
    assert (main["image"], main["command"][0]) == ("convoy", "convoy")
    assert "args" not in main
    assert main["resources"] == {"requests": {"cpu": "2"}}
    assert pod["spec"]["nodeSelector"] == {"pool": "small"}
    assert pod["metadata"]["labels"]["team"] == "a"
    assert {"name": "A", "value": "b"} in main["env"]
    assert world.condition("MasterTemplateReplaced")["status"] == "True"


def test_the_jobs_folder_is_made_before_its_master(tmp_path: Path) -> None:
    world = World(site=local_site(tmp_path))
    world.settle()
    folder = tmp_path / "default" / f"digits-{world.job['metadata']['uid'][:8]}"
    env = {one["name"]: one.get("value") for one in world.cluster.pods()[master(0)]["spec"]["containers"][0]["env"]}
    assert env["CONVOY_JOB_DIR"] == str(folder)
    assert folder.is_dir()


def test_a_namesake_waits_for_what_an_earlier_job_left() -> None:
    world = World()
    world.settle()
    old = world.job["metadata"]["uid"]
    world.cluster.delete(Kind.ELASTIC_JOB, "default", "digits")
    world.cluster.create(job_manifest(), field_manager="convoy-cli")
    decision = world.decide()
    assert decision.requeue_after
    assert not any(isinstance(action, CreateObject) for action in decision.actions)
    for key in [key for key in world.cluster.objects if key[0] in ("Secret", "Service")]:
        del world.cluster.objects[key]
    world.settle()
    mine = [
        name
        for name, pod in world.cluster.pods(names.MASTER).items()
        if pod["metadata"]["ownerReferences"][0]["uid"] != old
    ]
    assert mine == [master(1)]  # the old one's name is still taken
