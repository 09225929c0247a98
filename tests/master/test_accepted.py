"""A running job whose spec is edited into a wrong one is led on by the spec that was last right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from convoy.core.api.errors import InvalidManifest
from convoy.core.api.meta import ObjectMeta
from convoy.master.accepted import AcceptedSpec
from convoy.master.durable import FileStore
from support.manifests import job as job_manifest


def manifest(replicas: int = 2, **changes: Any) -> dict[str, Any]:
    found = job_manifest(worker__replicas=replicas, **changes)
    found["metadata"] |= {"namespace": "default", "uid": "0123456789"}
    return found


WRONG = [{"spec__optimizeMode": "wild"}, {"spec__distributionStrategy": "ParameterServerStrategy"}]


@pytest.mark.parametrize("change", WRONG)
def test_a_wrong_spec_is_replaced_by_the_one_that_was_kept_also_in_the_next_master(
    tmp_path: Path, change: dict[str, str]
) -> None:
    (tmp_path / "master").mkdir()

    def store(_: ObjectMeta) -> FileStore:
        return FileStore(tmp_path / "master")

    first = AcceptedSpec(store)
    right = first.read(manifest(replicas=3))
    first.keep(right)
    wrong = manifest(**change)
    wrong["metadata"]["annotations"] = {"convoy/pin": "true"}
    wrong["status"] = {"master": {"epoch": 5}}
    for accepted in (first, AcceptedSpec(store)):
        job = accepted.read(wrong)
        assert job.spec == right.spec
        assert (job.status.master.epoch, job.metadata.annotations) == (5, {"convoy/pin": "true"})
        accepted.keep(job)
    later = AcceptedSpec(store)
    later.keep(later.read(manifest(replicas=4)))
    assert AcceptedSpec(store).read(wrong).spec.replica_specs["worker"].replicas == 4


def test_a_job_that_never_was_right_stays_wrong(tmp_path: Path) -> None:
    accepted = AcceptedSpec(lambda _: FileStore(tmp_path / "master"))
    with pytest.raises(InvalidManifest, match=r"spec\.optimizeMode"):
        accepted.read(manifest(**WRONG[0]))
    unsupported = accepted.read(manifest(**WRONG[1]))
    assert unsupported.spec.distribution_strategy == "ParameterServerStrategy"
    accepted.keep(unsupported)
    assert list(tmp_path.iterdir()) == []
