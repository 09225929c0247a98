"""Our definitions applied to a cluster: on none, on DLRover's with its objects, again, and where it isn't allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from convoy.core.api.errors import ConvoyError, InvalidManifest, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes.connection import Body
from convoy.core.cluster.kubernetes.resources import Question
from convoy.operator import crds
from convoy.operator.observe import read_job, read_plan
from servers.api_server import ApiServer
from support.asked_server import JSON, AskedServer, asked_server
from support.disposable import disposable_api_server
from support.waiting import until
from support.whole_job import whole_job

pytestmark = pytest.mark.servers

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DLROVERS = list(yaml.safe_load_all((Path(__file__).parent / "dlrovers_definitions.yaml").read_text()))
MOMENT = "2025-11-03T09:00:00Z"

OLD_STATUS: Manifest = {
    "phase": "Running",
    "startTime": MOMENT,
    "lastReconcileTime": MOMENT,
    "conditions": [
        {
            "type": "Running",
            "status": "True",
            "reason": "JobRunning",
            "message": "ElasticJob old is running.",
            "lastUpdateTime": MOMENT,
            "lastTransitionTime": MOMENT,
        }
    ],
    "replicaStatuses": {"worker": {"active": 2, "labelSelector": {"matchLabels": {"a": "b"}}}},
}
OLD_PLAN: Manifest = {
    "apiVersion": "elastic.iml.github.io/v1alpha1",
    "kind": "ScalePlan",
    "metadata": {"name": "old-scaleplan-0"},
    "spec": {
        "ownerJob": "old",
        "psHosts": ["old-edljob-ps-0:2222"],
        "migratePods": [{"name": "old-edljob-ps-1", "id": 1, "type": "ps", "rankIndex": 0, "service": "s"}],
    },
}


def old_job(name: str) -> Manifest:
    """Return a job that DLRover took and we don't: a strategy, a role and fields that mean nothing to us."""
    job = whole_job(name, distributionStrategy="Local", envs={"A": {"name": "B"}})
    job["spec"].pop("managedBy")
    job["spec"]["resourceLimits"] = {"cpu": "8", "gpu": "4"}
    worker = job["spec"]["replicaSpecs"]["worker"]
    del worker["minReplicas"], worker["maxReplicas"]
    worker |= {"restartTimeout": 60, "restartPolicy": "ExitCode", "BatchScheduler": "volcano"}
    return job


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """Give an API server of this file's own."""
    with disposable_api_server(tmp_path_factory.mktemp("api-server")) as started:
        yield started


@pytest.fixture
def cluster(bare: ApiServer) -> Iterator[AskedServer]:
    """Give it without our definitions."""
    with asked_server(bare.kubeconfig, "default") as asked:
        for name in [one["metadata"]["name"] for one in asked.connection.read_json(Question(DEFINITIONS))["items"]]:
            asked.connection.write(Question(f"{DEFINITIONS}/{name}"), Body("DELETE", JSON, {}), {})
        until(lambda: asked.connection.read_json(Question(DEFINITIONS))["items"] == [], "definitions to be gone")
        yield asked


def apply(server: ApiServer, *more: str) -> int:
    return crds.main(["--apply", "--kubeconfig", str(server.kubeconfig), *more])


def stored(asked: AskedServer) -> dict[str, Manifest]:
    """Return the definitions that the server has, by name."""
    return {one["metadata"]["name"]: one for one in asked.connection.read_json(Question(DEFINITIONS))["items"]}


def test_on_a_new_cluster_and_again(
    bare: ApiServer, cluster: AskedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply(bare) == 0
    assert capsys.readouterr().out.splitlines() == [f"{name} is served" for name in sorted(stored(cluster))]
    cluster.would_take(whole_job())
    before = stored(cluster)
    assert apply(bare) == 0
    after = stored(cluster)
    assert {name: one["metadata"]["generation"] for name, one in after.items()} == dict.fromkeys(before, 1)


def test_whoever_may_not_is_told_what_to_grant(
    bare: ApiServer, cluster: AskedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert apply(bare, "--context", "nobody") == Unusable.exit_status
    said = capsys.readouterr().err
    assert 'resources: ["customresourcedefinitions"], verbs: ["get", "patch"]' in said
    assert stored(cluster) == {}


def test_over_dlrovers_its_objects_stay_readable_and_can_be_written_to(bare: ApiServer, cluster: AskedServer) -> None:
    for definition in DLROVERS:
        cluster.connection.write(Question(DEFINITIONS), Body("POST", JSON, definition), {})
    until(lambda: len(stored(cluster)) == 2 and _served(cluster), "DLRover's definitions to be served")
    old = cluster.create(old_job("old"))
    cluster.create(old_job("x" * 50))
    old["status"] = OLD_STATUS
    cluster.merge("ElasticJob", "old", {"status": OLD_STATUS}, "status")
    cluster.create(OLD_PLAN)

    assert apply(bare) == 0

    ours = {one["metadata"]["name"]: one["spec"]["versions"] for one in crds.definitions().values()}
    assert {name: one["spec"]["versions"] for name, one in stored(cluster).items()} == ours
    until(lambda: not _takes(cluster, old_job("another")), "the new schema to hold")
    found = cluster.read("ElasticJob", "old")
    assert (found["spec"], found["status"]) == (old["spec"], OLD_STATUS)
    assert cluster.read("ScalePlan", "old-scaleplan-0")["spec"] == OLD_PLAN["spec"]

    seen = read_job(found)
    assert seen.error is not None
    assert seen.error.path == "spec.distributionStrategy"
    assert read_plan(cluster.read("ScalePlan", "old-scaleplan-0")).error is not None
    for name in ("old", "x" * 50):
        cluster.merge("ElasticJob", name, {"status": {"phase": "Failed"}}, "status")
        cluster.merge("ElasticJob", name, {"spec": {"optimizeMode": "manual"}})
    with pytest.raises(InvalidManifest, match="restartTimeout"):
        cluster.merge("ElasticJob", "old", {"spec": {"replicaSpecs": {"worker": {"restartTimeout": 61}}}})


def _served(asked: AskedServer) -> bool:
    try:
        return {"elasticjobs", "scaleplans"} <= set(asked.discovered())
    except ConvoyError:
        return False


def _takes(asked: AskedServer, job: Manifest) -> bool:
    try:
        asked.would_take(job)
    except InvalidManifest:
        return False
    return True
