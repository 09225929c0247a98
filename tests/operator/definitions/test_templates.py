"""Pod templates are checked by dry runs on a real API server, and refused by their path in the job."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from convoy.core.api.errors import InvalidManifest, Unavailable
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes import open_cluster
from convoy.core.cluster.kubernetes.cluster import KubernetesCluster
from convoy.core.cluster.port import Kind
from convoy.operator.actions import ApplyJobStatus
from convoy.operator.job import decide
from convoy.operator.observe import Observed, read_job
from convoy.operator.pods import Site
from convoy.operator.templates import Templates, check
from support.waiting import until
from support.whole_job import whole_job

pytestmark = pytest.mark.servers

SITE = Site(master_image="registry.example/convoy:1", master_command=("convoy", "master"), master_port=50001)
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
TEMPLATE = "spec.replicaSpecs.worker.template"


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[KubernetesCluster]:
    with open_cluster(kubeconfig) as opened:
        yield opened


@pytest.fixture
def place(admin: client.ApiClient, namespace: str) -> str:
    """Give the namespace with its service account, without which no pod is taken."""
    api = client.CoreV1Api(admin)
    until(lambda: api.list_namespaced_service_account(namespace).items, "the namespace's service account")
    return namespace


def job_in(place: str, **spec: Any) -> Manifest:
    made = whole_job(**spec)
    made["metadata"] |= {"namespace": place, "uid": "8d1c8a52-0000-4000-8000-000000000000", "generation": 1}
    return made


def main(job: Manifest) -> Any:
    return job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]["containers"][0]


def verdict(cluster: KubernetesCluster, job: Manifest) -> InvalidManifest | None:
    def dry_run(pod: Manifest) -> None:
        cluster.create(pod, field_manager="convoy-operator", dry_run=True)

    return check(ElasticJob.from_manifest(job), SITE, dry_run)


def test_templates_that_are_right_are_taken_and_nothing_is_kept(cluster: KubernetesCluster, place: str) -> None:
    assert verdict(cluster, job_in(place)) is None
    assert cluster.list(Kind.POD, place).items == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda job: main(job).pop("image"), f"{TEMPLATE}.spec.containers[0].image: Required value"),
        (
            lambda job: main(job).update(imagePullPolcy="Never"),
            f"{TEMPLATE}.spec.containers[0].imagePullPolcy: no such",
        ),
        (
            lambda job: main(job).update(imagePullPolicy="Now"),
            f"{TEMPLATE}.spec.containers[0].imagePullPolicy: Unsup",
        ),
        (lambda job: main(job).update(ports="x"), f"{TEMPLATE}.spec.containers.ports: expected"),
        (
            lambda job: main(job)["resources"].update(requests={"memory": "2Gi"}),
            f"{TEMPLATE}.spec.containers[0].resources.requests: Invalid value",
        ),
        (
            lambda job: main(job)["env"].append({"name": "A", "valueFrom": {}}),
            f"{TEMPLATE}.spec.containers[0].env[1].valueFrom: Invalid value",
        ),
        (
            lambda job: job["spec"].update(envs={"A": {"name": "A", "valueFrom": {}}}),
            "spec.envs.A.valueFrom: Invalid value",
        ),
        (
            lambda job: job["spec"]["replicaSpecs"]["worker"]["template"]["metadata"]["labels"].update(a="b c"),
            f"{TEMPLATE}.metadata.labels: Invalid value",
        ),
        (
            lambda job: job["spec"]["replicaSpecs"]["dlrover-master"]["template"]["spec"].update(volumes=[]),
            "spec.replicaSpecs.dlrover-master.template.spec.containers[0].volumeMounts[0].name: Not found",
        ),
    ],
)
def test_a_template_that_is_wrong_is_named_by_its_place_in_the_job(
    cluster: KubernetesCluster, place: str, change: Any, says: str
) -> None:
    job = job_in(place)
    change(job)
    assert says in str(verdict(cluster, job))


def test_a_refused_template_stands_on_the_jobs_conditions_and_is_asked_about_once(
    cluster: KubernetesCluster, place: str
) -> None:
    asked: list[str] = []

    def dry_run(pod: Manifest) -> None:
        asked.append(pod["metadata"]["name"])
        cluster.create(pod, field_manager="convoy-operator", dry_run=True)

    job = job_in(place)
    del main(job)["image"]
    templates = Templates(dry_run, SITE)
    (write,) = decide(templates.vetted(Observed(read_job(job))), SITE, NOW).actions
    assert isinstance(write, ApplyJobStatus)
    conditions = {one["type"]: one for one in write.status["conditions"]}
    said = conditions["ManifestValid"]
    assert (said["status"], said["reason"]) == ("False", "InvalidManifest")
    assert said["message"].startswith(f"{TEMPLATE}.spec.containers[0].image: Required value")
    job["status"] = write.status
    assert decide(templates.vetted(Observed(read_job(job))), SITE, NOW).actions == ()
    assert asked == ["whole-edljob-worker-0"]
    main(job)["image"] = "registry.example/train:1"
    job["metadata"]["generation"] = 2
    corrected = templates.vetted(Observed(read_job(job)))
    assert corrected.job.error is None
    assert decide(corrected, SITE, NOW).actions != ()


def test_what_admission_forbids_now_is_not_the_templates_fault(
    cluster: KubernetesCluster, place: str, admin: client.ApiClient
) -> None:
    job = job_in(place)
    spec = job["spec"]["replicaSpecs"]["worker"]["template"]["spec"]
    spec |= {"serviceAccountName": "not-there", "priorityClassName": "not-there", "runtimeClassName": "not-there"}
    assert verdict(cluster, job) is None
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    client.CoreV1Api(admin).create_namespaced_resource_quota(place, quota)
    assert verdict(cluster, job) is None


def test_a_server_that_can_not_be_asked_gives_no_verdict() -> None:
    def dry_run(pod: Manifest) -> None:
        raise Unavailable("away")

    with pytest.raises(Unavailable):
        Templates(dry_run, SITE).vetted(Observed(read_job(job_in("default"))))
