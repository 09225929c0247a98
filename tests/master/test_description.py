from __future__ import annotations

import pytest

from convoy.core.api.job import Container, ElasticJob
from convoy.core.api.resources import Room
from convoy.core.api.template import template_key
from convoy.master import adviser, describe
from convoy.master.capacity import Left, measure
from convoy.master.decide.actions import AskBrain
from convoy.master.decide.state import Live, State
from support.manifests import job


def container(*args: str, image: str = "train:1") -> Container:
    return Container(name="main", image=image, command=["dlrover-run"], args=list(args))


def test_the_template_is_the_same_whatever_the_folders_and_numbers():
    key = template_key(container("--nnodes=1:4", "/a/b/train.py", "--lr=0.1", "--data", "/data/set-1"))
    same = template_key(container("--nnodes=2:8", "/other/train.py", "--lr=3e4", "--data", "/x/set-22"))
    assert same != template_key(container("--nnodes=1:4", "other.py", "--lr=0.1"))
    assert key == template_key(container("--nnodes=1:2", "train.py", "--lr=0.5", "--data", "/data/set-7/"))
    assert len(key) == 16


def test_an_argument_of_nothing_but_options_has_a_template_too():
    key = template_key(container("-a=" * 40_000))
    assert key != template_key(container("-a=" * 40_001))
    assert key == template_key(container("-a=" * 40_000 + "/"))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"container__resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}, (Room(1.0), True)),
        ({"container__resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}, (Room(2.0, 1 << 30), True)),
        (
            {"container__resources": {}, "container__env": [{"name": "OMP_NUM_THREADS", "value": "4"}]},
            (Room(4.0), False),
        ),
        ({"container__resources": {"requests": {"memory": "1Gi"}}}, (Room(1.0, 1 << 30), False)),
    ],
)
def test_what_a_worker_takes(changes, expected):
    assert describe.worker(ElasticJob.from_manifest(job(**changes))) == expected


def test_the_jobs_own_limits_bound_what_is_asked_of_the_brain():
    resources = {"requests": {"cpu": "1500m"}}
    made = ElasticJob.from_manifest(
        job(spec__resourceLimits={"cpu": "4"}, worker__maxReplicas=4, container__resources=resources)
    )
    state = State(describe.facts(made, brain=True))
    assert state.range() == (1, 2)
    question = adviser.question(made, state, AskBrain("RUNNING", 1, 0.0, 0), Left(), 0.0, 0.0)
    assert (question.limits.min_workers, question.limits.max_workers) == (1, 2)
    assert (question.limits.quota_cpu, question.limits.quota_memory) == (4.0, 0)
    assert (question.objective, question.pinned, question.frozen_until) == ("", False, 0.0)


def test_what_the_jobs_annotations_ask_is_passed_on_and_what_cant_be_read_left_out():
    asked = {
        "convoy/objective": "deadline",
        "convoy/deadline": "2026-12-24T18:00:00Z",
        "convoy/total-samples": "1e6",
        "convoy/allowed-workers": "1,2,8",
        "convoy/freeze": "1970-01-01/1970-01-02",
        "convoy/pin": "true",
        "convoy/max-batch": "many",
    }
    made = ElasticJob.from_manifest(job(metadata__annotations=asked))
    state = State(describe.facts(made, brain=True), live=Live(step=99))
    question = adviser.question(made, state, AskBrain("RUNNING", 1, 0.0, 256), Left(), 0.0, 60.0)
    assert (question.objective, question.deadline) == ("deadline", 1798135200.0)
    assert question.remaining_samples == 1e6 - 100 * 256
    assert list(question.limits.allowed_workers) == [1, 2, 8]
    assert (question.pinned, question.frozen_until, question.limits.max_batch) == (True, 86400.0, 0)
    assert list(question.adjustable) == ["workers", "loaders"]


def test_a_job_that_isnt_run_says_which_field_is_why():
    made = job(spec__distributionStrategy="ParameterServerStrategy")
    assert "ParameterServerStrategy" in describe.facts(ElasticJob.from_manifest(made), brain=False).refusal


def node(name: str, cpu: str, memory: str = "8Gi") -> dict:
    return {"metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": memory}}}


def pod(name: str, cpu: str, *, at: str, of: str = "", role: str = "worker", namespace: str = "default") -> dict:
    labels = {"elasticjob.dlrover/name": of, "elasticjob.dlrover/replica-type": role} if of else {}
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": at, "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]},
        "status": {"phase": "Running"},
    }


def test_what_others_ask_for_is_not_there_and_what_the_job_has_is():
    pods = [pod("mine", "1", at="a", of="job"), pod("theirs", "3", at="a", of="other"), pod("w", "1", at="b")]
    found = measure([node("a", "4"), node("b", "2")], pods, "job", "default", stated=True)
    assert (found.total.cores, found.largest.cores) == (2.0, 4.0)
    assert found.fits(Room(1.0)) == 2
    assert found.fits(Room(1.5)) == 0, "half a worker on each of two nodes is none"


def test_one_machines_small_control_plane_costs_no_worker():
    pods = [
        pod("master", "100m", at="", of="job", role="dlrover-master"),
        pod("brain", "500m", at="", namespace="convoy-system"),
    ]
    for one in pods:
        one["metadata"]["annotations"] = {"convoy/nice": "5"}
    found = measure([node("local", "2")], pods, "job", "default", stated=True)
    assert found.fits(Room(1.0, 1 << 30)) == 2
    assert found.fits(Room(0.25, 1 << 30)) == 6, "their memory is held all the same"
