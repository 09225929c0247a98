"""A job that can't be carried out is refused before it is submitted, with the field, the value and what would do."""

from typing import Any

import pytest

from convoy.core.api.admission import admit, workers_allowed
from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob
from convoy.core.api.resources import Capacity, Room

SMALL = Capacity(largest=Room(2, 8 << 30), total=Room(4, 12 << 30))


def job(name: str = "digits", *, cpu: Any = None, memory: str | None = None, **worker: Any) -> ElasticJob:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    command = worker.pop("command", ["dlrover-run", "--nnodes=$NODE_NUM", "examples/train.py", "--x=other.py"])
    container = {"name": "main", "command": command, "resources": {"requests": requests}}
    spec = {"replicas": 1, "template": {"spec": {"containers": [container]}}, **worker}
    strategy = worker.pop("strategy", "AllreduceStrategy")
    spec.pop("strategy", None)
    return ElasticJob.from_manifest(
        {
            "apiVersion": "elastic.iml.github.io/v1alpha1",
            "kind": "ElasticJob",
            "metadata": {"name": name},
            "spec": {"distributionStrategy": strategy, "replicaSpecs": {"worker": spec}},
        }
    )


def refusal(one: ElasticJob, capacity: Capacity | None = SMALL) -> str:
    with pytest.raises(InvalidManifest) as caught:
        admit(one, capacity)
    assert caught.value.exit_status == 2
    return str(caught.value)


def test_a_job_that_fits_is_admitted() -> None:
    admit(job(cpu="2", memory="6Gi", replicas=2), SMALL, script_exists=lambda path: path == "examples/train.py")
    admit(job(cpu="500", replicas=900))  # nobody knows the nodes
    admit(job(replicas=900), SMALL)  # nothing is asked for


def test_a_node_larger_than_the_largest_is_refused() -> None:
    assert refusal(job(cpu=1000)) == (
        "spec.replicaSpecs.worker.template.spec.containers[0].resources.requests.cpu: "
        "1000 cores, but the largest node has 2; ask for 2 or less"
    )
    said = refusal(job(memory="64Gi"))
    assert said.startswith("spec.replicaSpecs.worker.template.spec.containers[0].resources.requests.memory: 64Gi")
    assert "ask for 8192Mi or less" in said


def test_a_limit_counts_where_there_is_no_request() -> None:
    one = job()
    one.spec.replica_specs["worker"].template.main().resources.limits["cpu"] = "3"
    assert ".resources.limits.cpu: 3 cores" in refusal(one)
    one.spec.replica_specs["worker"].template.main().resources.requests["cpu"] = "1"
    admit(one, SMALL)


def test_a_smallest_size_that_does_not_fit_is_refused_where_it_is_asked_for() -> None:
    assert refusal(job(cpu=1, replicas=5)).startswith(
        "spec.replicaSpecs.worker.replicas: 5 pods of 1 cores need 5, but all nodes together have 4; ask for 4 or"
    )
    said = refusal(job(memory="4Gi", replicas=8, minReplicas=4, maxReplicas=8))
    assert said.startswith("spec.replicaSpecs.worker.minReplicas: 4 pods of 4096 MiB")
    admit(job(cpu=1, replicas=8, minReplicas=2, maxReplicas=8), SMALL)


@pytest.mark.parametrize("command", [["dlrover-run", "--nnodes=2:8"], ["sh", "-c", "dlrover-run --nnodes 2:8 x.py"]])
def test_the_launchers_range_counts_where_the_spec_gives_none(command: list[str]) -> None:
    admit(job(cpu=1, replicas=8, command=command), SMALL)


@pytest.mark.parametrize("name", ["Digits", "a.b", "-a", "a_b", ""])
def test_a_name_that_no_host_can_have_is_refused(name: str) -> None:
    assert refusal(job(name)).startswith("metadata.name: ")


def test_a_name_too_long_for_its_pods_is_refused_with_the_length_that_would_do() -> None:
    said = refusal(job("a" * 60))
    assert said.endswith("use 35 or fewer")
    admit(job("a" * 35), SMALL)
    refusal(job("a" * 36))


def test_parameter_servers_are_refused_for_now() -> None:
    said = refusal(job(strategy="ParameterServerStrategy"))
    assert said.startswith("spec.distributionStrategy: ParameterServerStrategy is not carried out by this version")


def test_another_role_with_nodes_is_refused() -> None:
    one = job()
    one.spec.replica_specs["evaluator"] = one.spec.replica_specs["worker"].model_copy(update={"replicas": 2})
    assert refusal(one).startswith("spec.replicaSpecs.evaluator: 2 nodes of a role that this version doesn't run")
    one.spec.replica_specs["evaluator"].replicas = 0
    admit(one, SMALL)


def limited(one: ElasticJob, **limits: str) -> ElasticJob:
    one.spec.resource_limits = limits
    return one


def test_the_fewest_workers_must_fit_into_the_jobs_own_limits() -> None:
    one = limited(job(cpu="1500m", memory="1Gi", replicas=4, minReplicas=2, maxReplicas=4), cpu="3", memory="9Gi")
    admit(one, SMALL)
    assert workers_allowed(one) == 2
    assert workers_allowed(limited(one, memory="3500Mi")) == 3
    assert refusal(limited(one, cpu="2")) == (
        "spec.resourceLimits.cpu: 2, but the fewest workers (2 of 1.5) need 3; allow that much, or ask for fewer "
        "workers or for less"
    )
    assert refusal(limited(one, memory="1Gi")).startswith(
        "spec.resourceLimits.memory: 1Gi, but the fewest workers (2 of 1024 MiB) need 2048 MiB; allow"
    )


def test_limits_that_nothing_can_be_held_to_are_refused() -> None:
    assert refusal(limited(job(cpu="1"), gpu="4")) == (
        "spec.resourceLimits.gpu: can't be limited by this version; use cpu or memory"
    )
    assert refusal(limited(job(memory="1Gi"), cpu="4")).startswith(
        "spec.resourceLimits.cpu: 4 can't be held: the workers request no cpu; add resources.requests.cpu"
    )
    assert workers_allowed(job(cpu="1")) is None


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (["dlrover-run", "--nnodes=1", "gone.py"], "command[2]"),
        (["/bin/bash", "-c", "cd . && dlrover-run gone.py --epochs 3"], "command[2]"),
    ],
)
def test_a_missing_script_is_named_with_its_place(command: list[str], place: str) -> None:
    asked = []

    def exists(path: str) -> bool:
        asked.append(path)
        return False

    with pytest.raises(InvalidManifest) as caught:
        admit(job(command=command), script_exists=exists)
    assert caught.value.path == f"spec.replicaSpecs.worker.template.spec.containers[0].{place}"
    assert "gone.py" in str(caught.value)
    assert asked == ["gone.py"]


def test_nodes_that_say_nothing_are_passed_over() -> None:
    nodes: list[dict[str, Any]] = [
        {"status": {"capacity": {"cpu": "4", "memory": "8Gi"}, "allocatable": {"cpu": "3500m"}}},
        {"status": {"capacity": {"cpu": "2", "memory": "16Gi"}}},
        {},
        {"status": {"capacity": {"cpu": "much"}}},
    ]
    assert Capacity.from_nodes(nodes) == Capacity(Room(3.5, 16 << 30), Room(5.5, 24 << 30))
    assert Capacity.from_nodes([{}]) is None


@pytest.mark.parametrize(
    ("part", "path"),
    [
        ({"env": [{"name": "A=B", "value": "1"}]}, "env[0].name"),
        ({"env": [{"name": "", "value": "1"}]}, "env[0].name"),
        ({"env": [{"name": "A", "value": "x\0y"}]}, "env[0].value"),
        ({"env": [{"name": "A", "value": "x" * 300_000}]}, "env[0].value"),
        ({"command": ["python", "a\0b"]}, "command[1]"),
    ],
)
def test_what_no_process_can_be_started_with_is_refused(part: dict[str, Any], path: str) -> None:
    manifest = job().to_manifest()
    manifest["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0] |= part
    with pytest.raises(InvalidManifest) as caught:
        ElasticJob.from_manifest(manifest)
    assert str(caught.value).startswith(f"spec.replicaSpecs.worker.template.spec.containers[0].{path}: ")
    assert len(str(caught.value)) < 600
