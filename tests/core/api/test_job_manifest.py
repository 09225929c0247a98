"""ElasticJob: nonsense is refused with the field's path, absent stays absent, what Convoy doesn't read is kept."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob, OptimizeMode, Range

Path = tuple[str | int, ...]


def manifest() -> dict[str, Any]:
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ElasticJob",
        "metadata": {"name": "digits", "namespace": "default", "labels": {"team": "vision"}},
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "optimizeMode": "cluster",
            "resourceLimits": {"cpu": "8", "memory": "16Gi"},
            "replicaSpecs": {
                "worker": {
                    "replicas": 2,
                    "minReplicas": 1,
                    "maxReplicas": 4,
                    "restartPolicy": "Never",
                    "restartCount": 3,
                    "template": {
                        "metadata": {"annotations": {"note": "kept"}},
                        "spec": {
                            "restartPolicy": "Never",
                            "nodeSelector": {"disk": "ssd"},
                            "containers": [
                                {
                                    "name": "main",
                                    "image": "train:1",
                                    "command": ["dlrover-run", "--nnodes=1:4", "train.py"],
                                    "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
                                    "resources": {"requests": {"cpu": "500m"}, "limits": {"memory": "1Gi"}},
                                    "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                                }
                            ],
                        },
                    },
                }
            },
        },
    }


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*at, key))


def parent(value: Any, at: Path) -> Any:
    for key in at[:-1]:
        value = value[key]
    return value


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in ({}, [])}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


ALL = sorted(paths(manifest()), key=str)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2),
    max_leaves=4,
)


def read(changed: Any) -> ElasticJob | None:
    try:
        job = ElasticJob.from_manifest(changed)
    except InvalidManifest:
        return None
    json.dumps(job.to_manifest())
    return job


@given(st.sampled_from(ALL), JSON)
def test_any_field_retyped_is_taken_or_refused(at: Path, value: Any) -> None:
    changed = manifest()
    parent(changed, at)[at[-1]] = value
    read(changed)


@given(st.sets(st.sampled_from(ALL), min_size=1, max_size=4))
def test_any_fields_dropped_are_absent_or_refused(gone: set[Path]) -> None:
    changed = manifest()
    for at in sorted(gone, key=len, reverse=True):
        holder = parent(changed, at)
        if isinstance(holder, dict) or at[-1] < len(holder):
            del holder[at[-1]]
    job = read(changed)
    if job is not None:
        assert without_empty(job.to_manifest()["spec"]) == without_empty(changed["spec"])


@given(JSON)
def test_anything_at_all_is_refused(anything: Any) -> None:
    assert read(anything) is None


def test_it_survives_the_way() -> None:
    there = ElasticJob.from_manifest(manifest()).to_manifest()
    assert without_empty(there["spec"]) == manifest()["spec"]
    assert ElasticJob.from_manifest(there).to_manifest() == there


def test_absent_stays_absent() -> None:
    small = manifest()
    worker = small["spec"]["replicaSpecs"]["worker"]
    for name in ("replicas", "minReplicas", "maxReplicas", "restartCount", "restartPolicy"):
        del worker[name]
    del small["spec"]["optimizeMode"]
    job = ElasticJob.from_manifest(small)
    assert job.spec.optimize_mode is None
    assert job.spec.mode is OptimizeMode.SINGLE_JOB
    assert {"replicas", "minReplicas", "maxReplicas"}.isdisjoint(job.to_manifest()["spec"]["replicaSpecs"]["worker"])


@pytest.mark.parametrize(
    ("at", "value", "path", "says"),
    [
        (("spec", "distributionStrategy"), "Ring", "spec.distributionStrategy", "'Ring'"),
        (("spec", "optimizeMode"), "magic", "spec.optimizeMode", "'magic'"),
        (("spec", "colour"), "red", "spec.colour", "no such field (value 'red')"),
        (("spec", "replicaSpecs", "worker", "replicas"), -1, "spec.replicaSpecs.worker.replicas", "-1"),
        (("spec", "replicaSpecs", "worker", "replicas"), "two", "spec.replicaSpecs.worker.replicas", "'two'"),
        (
            ("spec", "replicaSpecs", "worker", "minReplicas"),
            9,
            "spec.replicaSpecs.worker",
            "minReplicas 9 is more",
        ),
        (
            ("spec", "replicaSpecs", "worker", "replicas"),
            5,
            "spec.replicaSpecs.worker",
            "5 is more than maxReplicas",
        ),
        (("spec", "replicaSpecs", "worker", "replica"), 1, "spec.replicaSpecs.worker.replica", "no such field"),
        (("spec", "replicaSpecs", "ring"), {"template": {}}, "spec.replicaSpecs.ring.template.spec", "required"),
        (("spec", "resourceLimits", "cpu"), "many", "spec.resourceLimits.cpu", "'many' is not a quantity"),
        (("spec", "replicaSpecs"), {}, "spec.replicaSpecs", "at least 1"),
        (("kind",), "Job", "kind", "'Job'"),
        (("apiVersion",), "v1", "apiVersion", "'v1'"),
        (("metadata",), None, "metadata", "None"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(at: Path, value: Any, path: str, says: str) -> None:
    changed = copy.deepcopy(manifest())
    parent(changed, at)[at[-1]] = value
    with pytest.raises(InvalidManifest) as caught:
        ElasticJob.from_manifest(changed)
    assert caught.value.path == path
    assert says in str(caught.value)
    assert caught.value.exit_status == 2


def test_a_role_that_is_none_is_named() -> None:
    changed = manifest()
    changed["spec"]["replicaSpecs"]["wrker"] = changed["spec"]["replicaSpecs"].pop("worker")
    with pytest.raises(InvalidManifest, match=r"replicaSpecs\.wrker: no such role; expected one of worker, ps"):
        ElasticJob.from_manifest(changed)


@given(
    st.none() | st.integers(0, 8),
    st.none() | st.integers(0, 8),
    st.none() | st.integers(0, 8),
    st.none() | st.tuples(st.integers(0, 8), st.integers(0, 8)).map(sorted).map(lambda ends: Range(*ends)),
)
def test_a_range_is_ordered_and_what_the_user_wrote_prevails(
    replicas: int | None, fewest: int | None, most: int | None, launcher: Range | None
) -> None:
    changed = manifest()
    worker = changed["spec"]["replicaSpecs"]["worker"]
    worker |= {"replicas": replicas, "minReplicas": fewest, "maxReplicas": most}
    job = read(changed)
    if job is None:
        return
    found = job.spec.replica_specs["worker"].range(launcher)
    assert found.fewest <= found.most
    assert fewest is None or found.fewest == fewest
    assert most is None or found.most == most
    assert replicas is None or found.fewest <= replicas <= found.most
