"""The API server of the tests: our kinds are served, owners collected, identities told apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from kubernetes import client

from servers.objects import connected
from support.waiting import until

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
GROUP = ("elastic.iml.github.io", "v1alpha1")
JOBS = "elasticjobs"
JOB = yaml.safe_load((ROOT / "examples/digits-allreduce.yaml").read_text())
APPLY = "application/apply-patch+yaml"


def apply_job(connection, namespace, job, **how):
    """Return the object as applied: the generated client drops the body of a 201 where it isn't asked for it raw."""
    answer = client.CustomObjectsApi(connection).patch_namespaced_custom_object(
        *GROUP,
        namespace,
        JOBS,
        job["metadata"]["name"],
        job,
        field_manager="user",
        _content_type=APPLY,
        _preload_content=False,
        **how,
    )
    return json.loads(answer.read())


def jobs(connection, namespace):
    return client.CustomObjectsApi(connection).list_namespaced_custom_object(*GROUP, namespace, JOBS)["items"]


def names(core, namespace):
    return [pod.metadata.name for pod in core.list_namespaced_pod(namespace).items]


def test_the_version_is_one_that_clients_can_parse(admin):
    found = client.VersionApi(admin).get_code()
    assert found.git_version.startswith(f"v{found.major}.{int(found.minor.rstrip('+'))}.")
    assert found.major == "1"


def test_the_example_is_accepted_without_being_stored(admin, namespace):
    accepted = apply_job(admin, namespace, JOB, dry_run="All")
    assert accepted["spec"]["replicaSpecs"]["worker"]["maxReplicas"] == 4
    assert jobs(admin, namespace) == []


def test_what_the_schema_forbids_is_refused_by_its_path(admin, namespace):
    wrong = {**JOB, "spec": {**JOB["spec"], "optimizeMode": "by-magic"}}
    with pytest.raises(client.ApiException) as refused:
        apply_job(admin, namespace, wrong, dry_run="All")
    assert refused.value.status == 422
    assert "spec.optimizeMode" in refused.value.body


def test_what_a_job_owns_goes_with_it(admin, namespace):
    job = apply_job(admin, namespace, JOB)
    owner = {name: job[name] for name in ("apiVersion", "kind")} | {
        name: job["metadata"][name] for name in ("name", "uid")
    }
    core = client.CoreV1Api(admin)
    until(lambda: core.list_namespaced_service_account(namespace).items, "the namespace's service account")
    containers = [{"name": "main", "image": "none"}]
    for name, owners in (("owned", [owner]), ("free", [])):
        pod = {"metadata": {"name": name, "ownerReferences": owners}, "spec": {"containers": containers}}
        core.create_namespaced_pod(namespace, pod)
    client.CustomObjectsApi(admin).delete_namespaced_custom_object(*GROUP, namespace, JOBS, owner["name"])
    until(lambda: "owned" not in names(core, namespace), "the owned pod to be collected", timeout=30)
    assert names(core, namespace) == ["free"]


def test_a_reader_reads_and_nobody_does_nothing(identities, namespace):
    with connected(identities, "reader") as reader, connected(identities, "nobody") as nobody:
        assert jobs(reader, namespace) == []
        assert client.CoreV1Api(reader).list_node().items == []
        for call in (
            lambda: apply_job(reader, namespace, JOB),
            lambda: client.CoreV1Api(reader).list_namespaced_secret(namespace),
            lambda: jobs(nobody, namespace),
        ):
            with pytest.raises(client.ApiException) as refused:
                call()
            assert refused.value.status == 403
