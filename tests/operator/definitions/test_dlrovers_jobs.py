"""Manifests with the fields of DLRover's published examples are taken unchanged by an API server, and can be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from convoy.core.api.job import ElasticJob, OptimizeMode
from convoy.core.api.meta import Manifest
from support.asked_server import AskedServer

pytestmark = pytest.mark.servers

HERE = Path(__file__).parent


def documents(*files: Path) -> list[Any]:
    found = [document for file in files for document in yaml.safe_load_all(file.read_text())]
    return [pytest.param(one, id=one["metadata"]["name"]) for one in found]


def taken(asking: AskedServer, job: Manifest) -> ElasticJob:
    """Assert that the server takes a job as kubectl sends it, every field kept; return it as it is read."""
    stored = asking.would_take(job)
    assert stored["spec"] == job["spec"]
    return ElasticJob.from_manifest(stored)


@pytest.mark.parametrize("job", documents(HERE / "dlrovers_jobs.yaml"))
def test_a_job_as_dlrovers_users_write_it_is_taken_unchanged(asking: AskedServer, job: Manifest) -> None:
    read = taken(asking, job)
    assert read.spec.replica_specs["worker"].template.main().image


def test_what_turns_elasticity_off_keeps_the_size(asking: AskedServer) -> None:
    (job,) = (one.values[0] for one in documents(HERE / "dlrovers_jobs.yaml") if one.id == "fixed-size")
    assert taken(asking, job).spec.mode is OptimizeMode.MANUAL


def test_a_share_of_an_accelerator_stays_as_it_was_written(asking: AskedServer) -> None:
    (job,) = (one.values[0] for one in documents(HERE / "dlrovers_jobs.yaml") if one.id == "in-a-shell")
    worker = taken(asking, job).spec.replica_specs["worker"]
    assert (worker.replicas, worker.template.spec.restart_policy) == (5, "Always")
