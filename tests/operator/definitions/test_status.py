"""The status on a real API server: two writers, metav1 conditions, /scale with its selector, what kubectl prints."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from convoy.operator.actions import ApplyJobStatus
from convoy.operator.job import decide
from convoy.operator.observe import Observed, read_job
from support.asked_server import AskedServer
from support.operator_world import local_site
from support.whole_job import whole_job

pytestmark = pytest.mark.servers

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPERATOR, MASTER = "convoy-operator", "convoy-master"


def status_of(job: Manifest, **status: Any) -> Manifest:
    """Return what is applied to a job's status."""
    return {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "metadata": {"name": job["metadata"]["name"]},
        "status": status,
    }


def condition(kind: str, **more: Any) -> Manifest:
    said = {"type": kind, "status": "True", "reason": "Because", "message": "it is so"}
    return {**said, "lastTransitionTime": "2026-03-01T12:00:00Z", **more}


def written_by_the_operator(job: Manifest, tmp_path: Any) -> Manifest:
    """Return the status that the operator writes of a job when it first sees it."""
    actions = decide(Observed(read_job(job)), local_site(tmp_path), NOW).actions
    (write,) = (action for action in actions if isinstance(action, ApplyJobStatus))
    return write.status


def test_operator_and_master_each_own_their_part(server: AskedServer, tmp_path: Any) -> None:
    job = server.create(whole_job())
    server.apply(status_of(job, **written_by_the_operator(job, tmp_path)), OPERATOR, status=True)
    training = {"state": "Running", "step": 41, "samplesPerSecond": 12.5, "restarts": 2}
    master = {"master": {"epoch": 1, "pod": "m-0"}, "training": training, "conditions": [condition("BrainAvailable")]}
    found = server.apply(status_of(job, **master), MASTER, status=True)
    assert found["metadata"]["generation"] == job["metadata"]["generation"]
    read = ElasticJob.from_manifest(found).status
    assert (read.phase, read.observed_generation, read.training.step) == ("Created", 1, 41)
    assert {one.type for one in read.conditions} == {
        "BrainAvailable",
        "Created",
        "MasterTemplateReplaced",
        "RestartPolicyReplaced",
    }
    server.apply(status_of(job, phase="Running"), OPERATOR, status=True)
    read = ElasticJob.from_manifest(server.read("ElasticJob", "whole")).status
    assert (read.phase, read.training.step) == ("Running", 41)
    assert [one.type for one in read.conditions] == ["BrainAvailable"]


def test_a_template_that_would_restart_its_pods_is_told_so(server: AskedServer, tmp_path: Any) -> None:
    job = server.create(whole_job())
    conditions = written_by_the_operator(job, tmp_path)["conditions"]
    (said,) = (one["message"] for one in conditions if one["type"] == "RestartPolicyReplaced")
    assert said.startswith("restartPolicy Always of replicaSpecs.dlrover-master, Always of replicaSpecs.worker is")


@pytest.mark.parametrize(
    ("status", "says"),
    [
        ({"phase": "Paused"}, 'status.phase: Unsupported value: "Paused"'),
        ({"conditions": [condition("A", reason="")]}, "status.conditions[0].reason: Invalid value"),
        ({"conditions": [condition("A", reason="two words")]}, "status.conditions[0].reason: Invalid value"),
        ({"conditions": [condition("A", message="x" * 32_769)]}, "status.conditions[0].message: Too long"),
        ({"conditions": [condition("A", status="Maybe")]}, "status.conditions[0].status: Unsupported value"),
        ({"conditions": [{"type": "A", "status": "True"}]}, "status.conditions[0].lastTransitionTime: Required"),
        ({"conditions": [condition("A"), condition("A")]}, "status.conditions[1]: Duplicate value"),
        ({"training": {"state": "Perhaps"}}, "status.training.state: Unsupported value"),
    ],
)
def test_a_status_that_is_none_is_refused(server: AskedServer, status: Manifest, says: str) -> None:
    server.create(whole_job())
    with pytest.raises(InvalidManifest) as refused:
        server.merge("ElasticJob", "whole", {"status": status}, "status")
    assert says in str(refused.value) or says.partition(":")[0] in str(refused.value).partition("(and ")[2]


@pytest.mark.parametrize("phase", ["Created", "Pending", "Running", "Scaling", "Restarting", "Suspended", "Failed"])
def test_each_of_dlrovers_phases_can_stand_there(server: AskedServer, phase: str) -> None:
    server.create(whole_job())
    found = server.merge("ElasticJob", "whole", {"status": {"phase": phase}}, "status")
    assert ElasticJob.from_manifest(found).status.phase == phase


def test_the_scale_subresource_reads_and_sets_the_workers(server: AskedServer, tmp_path: Any) -> None:
    job = server.create(whole_job())
    server.apply(status_of(job, **written_by_the_operator(job, tmp_path)), OPERATOR, status=True)
    server.merge("ElasticJob", "whole", {"status": {"replicaStatuses": {"worker": {"active": 1}}}}, "status")
    scale = server.read("ElasticJob", "whole", "scale")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {
        "replicas": 1,
        "selector": "elasticjob.dlrover/name=whole,elasticjob.dlrover/replica-type=worker",
    }
    server.merge("ElasticJob", "whole", {"spec": {"replicas": 4}}, "scale")
    assert server.read("ElasticJob", "whole")["spec"]["replicaSpecs"]["worker"]["replicas"] == 4
    with pytest.raises(InvalidManifest, match="replicas: Invalid value: must not be more than maxReplicas"):
        server.merge("ElasticJob", "whole", {"spec": {"replicas": 5}}, "scale")


def test_kubectl_prints_how_a_job_goes(server: AskedServer) -> None:
    job = server.create(whole_job())
    server.create(whole_job("quiet"))
    training = {"state": "Running", "reason": "SizeKept", "step": 41, "samplesPerSecond": 12.5, "restarts": 2}
    training |= {"progress": 0.25, "estimatedCompletionTime": "2026-03-01T15:00:00Z"}
    server.apply(status_of(job, phase="Running", ready="1/2", training=training), OPERATOR, status=True)
    table = server.table("ElasticJob")
    shown = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
    assert shown == ["Name", "State", "Ready", "Step", "Speed", "Restarts", "Mode", "Age"]
    quiet, whole = (row["cells"] for row in table["rows"])
    assert whole[:7] == ["whole", "Running", "1/2", 41, 12.5, 2, "cluster"]
    assert whole[8:11] == [0.25, "2026-03-01T15:00:00Z", "SizeKept"]
    assert quiet[:7] == ["quiet", None, None, None, None, None, "cluster"]


def test_our_kinds_have_short_names_and_subresources(server: AskedServer) -> None:
    found = server.discovered()
    assert set(found) == {"elasticjobs", "elasticjobs/status", "elasticjobs/scale", "scaleplans", "scaleplans/status"}
    assert (found["elasticjobs"]["shortNames"], found["scaleplans"]["shortNames"]) == (["ej"], ["sp"])
