"""What a real API server takes of a job and of a plan, what it refuses, and in which words; absent stays absent."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from convoy.core.api.plan import ScalePlan
from support.asked_server import AskedServer
from support.operator_world import plan_manifest, pod_meta
from support.whole_job import whole_job

pytestmark = pytest.mark.servers

WORKER = "spec.replicaSpecs.worker"
CONTAINER = f"{WORKER}.template.spec.containers.0"


def changed(manifest: Manifest, path: str, value: Any) -> Manifest:
    """Return the manifest with a value at a path; None: without it."""
    made = copy.deepcopy(manifest)
    *parents, last = path.split(".")
    node: Any = made
    for key in parents:
        node = node[int(key)] if isinstance(node, list) else node.setdefault(key, {})
    if value is None:
        del node[last]
    else:
        node[int(last) if isinstance(node, list) else last] = value
    return made


def refusal(server: AskedServer, manifest: Manifest) -> str:
    with pytest.raises(InvalidManifest) as refused:
        server.would_take(manifest)
    return str(refused.value)


def test_every_field_that_is_carried_out_is_kept_as_it_was_written(server: AskedServer) -> None:
    job = whole_job()
    taken = server.create(job)
    assert taken["spec"] == job["spec"]
    assert server.read("ElasticJob", "whole")["spec"] == job["spec"]
    read = ElasticJob.from_manifest(taken).to_manifest()["spec"]
    assert read["envs"] == job["spec"]["envs"]
    assert read["replicaSpecs"]["worker"]["priority"] == "0.5"


@pytest.mark.parametrize(
    "gone",
    [
        *(f"spec.{name}" for name in ("optimizeMode", "resourceLimits", "envs", "suspend", "managedBy")),
        *(f"{WORKER}.{name}" for name in ("replicas", "restartPolicy", "restartCount", "autoScale", "minReplicas")),
        *("metadata.labels", f"{WORKER}.template.metadata", f"{WORKER}.template.spec.restartPolicy"),
        *(f"{CONTAINER}.resources", f"{CONTAINER}.command"),
    ],
)
def test_what_is_absent_stays_absent(asking: AskedServer, gone: str) -> None:
    job = changed(whole_job(), gone, None)
    taken = asking.would_take(job)
    assert taken["spec"] == job["spec"]
    ElasticJob.from_manifest(taken)


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("metadata.name", "a" * 36, "metadata.name: Invalid value: must have no more than 35 characters"),
        ("metadata.name", "a.b", "metadata.name: Invalid value: must be lower-case letters, digits and '-'"),
        ("spec.distributionStrategy", "Local", 'spec.distributionStrategy: Unsupported value: "Local"'),
        ("spec.distributionStrategy", None, "spec.distributionStrategy: Required value"),
        ("spec.optimizeMode", "manunal", 'spec.optimizeMode: Unsupported value: "manunal"'),
        (
            "spec.brainService",
            "http://brain:1",
            'brainService: Invalid value: "http://brain:1": must be host:port',
        ),
        ("spec.resourceLimits", {"gpu": 4}, "spec.resourceLimits: Invalid value: can be of cpu and memory alone"),
        ("spec.resourceLimits", {"cpu": "-1"}, "spec.resourceLimits.cpu: Invalid value"),
        ("spec.resourceLimits", {"memory": "many"}, "spec.resourceLimits.memory: Invalid value"),
        ("spec.envs", {"A": {"name": "B"}}, "spec.envs: Invalid value: each key must be its variable's name"),
        (
            "spec.enableDynamicSharding",
            False,
            "enableDynamicSharding: Invalid value: false: can't be turned off",
        ),
        ("spec.suspend", "yes", "spec.suspend: Invalid value"),
        ("spec.managedBy", "me", 'spec.managedBy: Invalid value: "me": must be a domain and a path'),
        ("spec.colour", "red", "spec.colour: no such field"),
        ("spec.replicaSpecs", {}, "spec.replicaSpecs: Invalid value"),
        ("spec.replicaSpecs.wrker", {}, "spec.replicaSpecs.wrker.template: Required value"),
        (f"{WORKER}.template", None, f"{WORKER}.template: Required value"),
        (f"{WORKER}.restartPolicy", "ExitCode", f'{WORKER}.restartPolicy: Unsupported value: "ExitCode"'),
        (f"{WORKER}.priority", "middling", '.priority: Invalid value: "middling": must be high, low, or a fraction'),
        (f"{WORKER}.minReplicas", 5, "minReplicas: Invalid value: must not be more than maxReplicas"),
        (f"{WORKER}.replicas", 5, "replicas: Invalid value: must not be more than maxReplicas"),
        (f"{WORKER}.replicas", -1, f"{WORKER}.replicas: Invalid value: -1"),
        (f"{WORKER}.maxReplicas", 100_001, f"{WORKER}.maxReplicas: Invalid value: 100001"),
        (f"{WORKER}.restartCount", 1001, f"{WORKER}.restartCount: Invalid value: 1001"),
        (f"{WORKER}.restartTimeout", 60, "restartTimeout: Invalid value: 60: no time limit is held for a relaunch"),
        (f"{WORKER}.BatchScheduler", "volcano", "BatchScheduler: Invalid value"),
        (f"{WORKER}.criticalNodes", "all", "criticalNodes: Invalid value"),
        (f"{WORKER}.template.spec.containers", [], f"{WORKER}.template.spec.containers: Invalid value"),
        (f"{CONTAINER}.name", None, f"{WORKER}.template.spec.containers[0].name: Required value"),
        (f"{CONTAINER}.command", "train.py", f"{WORKER}.template.spec.containers[0].command: Invalid value"),
    ],
)
def test_a_job_that_is_wrong_is_refused_at_once_by_the_field(
    asking: AskedServer, path: str, value: Any, says: str
) -> None:
    assert says in refusal(asking, changed(whole_job(), path, value))


def test_a_role_that_is_none_and_a_job_without_workers_are_refused(asking: AskedServer) -> None:
    roles = whole_job()["spec"]["replicaSpecs"]
    worker = roles["worker"]
    said = refusal(asking, whole_job(replicaSpecs={"worker": worker, "wrker": worker}))
    assert "spec.replicaSpecs: Invalid value: no such role; expected one of worker, ps, chief" in said
    said = refusal(asking, whole_job(replicaSpecs={"ps": worker}))
    assert "spec.replicaSpecs: Invalid value: the role worker is required, and is absent" in said


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.distributionStrategy", "ParameterServerStrategy"),
        ("spec.managedBy", "dlrover.example/operator"),
        ("spec.managedBy", None),
    ],
)
def test_what_can_not_change_is_immutable(server: AskedServer, path: str, value: Any) -> None:
    server.create(whole_job())
    field = path.rpartition(".")[2]
    with pytest.raises(InvalidManifest, match=f"spec.{field}: Invalid value.*: is immutable"):
        server.merge("ElasticJob", "whole", {"spec": {field: value}})
    server.merge("ElasticJob", "whole", {"spec": {"optimizeMode": "manual", "brainService": None}})


def test_a_template_is_open_and_keeps_what_no_schema_of_ours_knows(asking: AskedServer) -> None:
    job = changed(whole_job(), f"{WORKER}.template.spec.schedulingGates", [{"name": "wait"}])
    job = changed(job, f"{CONTAINER}.env.0", {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}})
    assert asking.would_take(job)["spec"] == job["spec"]


def test_a_plans_fields(server: AskedServer) -> None:
    plan = plan_manifest(0, createPods=[{**pod_meta(0), "resource": {"cpu": 2}}], removePods=[pod_meta(1)])
    taken = server.create(plan)
    assert taken["spec"] == plan["spec"]
    assert ScalePlan.from_manifest(taken).spec.create_pods[0].resource == {"cpu": "2"}


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("spec.ownerJob", None, "spec.ownerJob: Required value"),
        ("spec.ownerJob", "", "spec.ownerJob: Invalid value"),
        ("spec.epoch", -1, "spec.epoch: Invalid value: -1"),
        ("spec.replicaResourceSpecs", {"worker": {"replicas": -1}}, "spec.replicaResourceSpecs.worker.replicas"),
        ("spec.createPods", [{**pod_meta(0), "id": -1}], "spec.createPods[0].id: Invalid value: -1"),
        ("spec.createPods", [{**pod_meta(0), "service": "s"}], "spec.createPods[0].service: Invalid value"),
        ("spec.migratePods", [pod_meta(0)], "spec.migratePods: Invalid value: name the new pod in createPods"),
        ("spec.psHosts", ["a:1"], "spec.psHosts"),
    ],
)
def test_a_plan_that_is_wrong_is_refused_by_the_field(asking: AskedServer, path: str, value: Any, says: str) -> None:
    assert says in refusal(asking, changed(plan_manifest(0), path, value))


def test_a_plan_is_immutable_and_its_status_is_not(server: AskedServer) -> None:
    name = server.create(plan_manifest(0, createPods=[pod_meta(0)]))["metadata"]["name"]
    with pytest.raises(InvalidManifest, match="spec: Invalid value: a plan is immutable: write another one"):
        server.merge("ScalePlan", name, {"spec": {"epoch": 7}})
    found = server.merge("ScalePlan", name, {"status": {"phase": "Succeeded"}}, "status")
    assert found["status"] == {"phase": "Succeeded"}
