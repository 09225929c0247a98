"""/scale of a job whose user gave no number: the operator's own serves it, and kubectl's takes its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from convoy.core.api.job import ElasticJob, ReplicaSpec
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes import open_cluster
from convoy.core.cluster.kubernetes.cluster import KubernetesCluster
from convoy.core.cluster.port import Kind
from convoy.operator.actions import ApplyJobReplicas
from convoy.operator.executor import Executor
from convoy.operator.observe import read_job
from support.asked_server import AskedServer
from support.whole_job import whole_job

pytestmark = pytest.mark.servers


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[KubernetesCluster]:
    with open_cluster(kubeconfig) as opened:
        yield opened


@pytest.fixture
def job(server: AskedServer) -> Manifest:
    made = whole_job()
    del made["spec"]["replicaSpecs"]["worker"]["replicas"]
    return server.create(made)


def write(cluster: KubernetesCluster, job: Manifest, replicas: int) -> None:
    metadata = job["metadata"]
    action = ApplyJobReplicas(metadata["namespace"], metadata["name"], metadata["uid"], "worker", replicas)
    assert Executor(cluster).run([action]) is None


def worker(cluster: KubernetesCluster, job: Manifest) -> ReplicaSpec:
    """Return what the job's user asked for, as it is read anew, one by one and in a list."""
    namespace, name = job["metadata"]["namespace"], job["metadata"]["name"]
    (listed,) = cluster.list(Kind.ELASTIC_JOB, namespace).items
    found = cluster.get(Kind.ELASTIC_JOB, namespace, name)
    assert read_job(found).scalable
    read = ElasticJob.from_manifest(found).spec.replica_specs["worker"]
    assert ElasticJob.from_manifest(listed).spec.replica_specs["worker"] == read
    return read


def test_the_operators_number_serves_scale_and_is_not_the_users(
    cluster: KubernetesCluster, server: AskedServer, job: Manifest
) -> None:
    assert worker(cluster, job).replicas is None
    for number in (2, 3, 3):
        write(cluster, job, number)
        assert server.read("ElasticJob", "whole", "scale")["spec"] == {"replicas": number}
        assert worker(cluster, job).replicas is None
        assert worker(cluster, job).range() == (1, 4)


def test_a_number_by_scale_is_the_users_and_stays(
    cluster: KubernetesCluster, server: AskedServer, job: Manifest
) -> None:
    write(cluster, job, 2)
    server.merge("ElasticJob", "whole", {"spec": {"replicas": 4}}, "scale")
    assert worker(cluster, job).replicas == 4
    write(cluster, job, 2)
    assert worker(cluster, job).replicas == 4


def test_a_number_outside_the_users_range_is_not_forced_upon_the_job(
    cluster: KubernetesCluster, job: Manifest
) -> None:
    write(cluster, job, 9)
    assert worker(cluster, job).replicas is None


def test_another_job_of_the_name_is_not_written_to(
    cluster: KubernetesCluster, server: AskedServer, job: Manifest
) -> None:
    earlier = {**job, "metadata": {**job["metadata"], "uid": "8d1c8a52-0000-4000-8000-000000000000"}}
    write(cluster, earlier, 2)
    assert "replicas" not in server.read("ElasticJob", "whole")["spec"]["replicaSpecs"]["worker"]
