"""A number that the operator wrote into a job isn't what its user asked for; anyone else's is."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from convoy.core.api.ownership import as_asked
from support.manifests import job


def entry(manager: str, *fields: str, role: str = "worker") -> Manifest:
    owned = {f"f:{name}": {} for name in fields}
    return {"manager": manager, "fieldsV1": {"f:spec": {"f:replicaSpecs": {f"f:{role}": owned}}}}


OPERATOR = entry("convoy-operator", "replicas")


@pytest.mark.parametrize(
    ("managed", "replicas"),
    [
        ([OPERATOR], None),
        ([OPERATOR, entry("user", "maxReplicas")], None),
        ([OPERATOR, entry("user", "replicas")], 3),
        ([entry("kubectl", "replicas"), entry("convoy-operator", "template")], 3),
        ([OPERATOR | {"fieldsV1": {"f:status": {}}}], 3),
        ([entry("convoy-operator", "replicas", role="ps")], 3),
        ([], 3),
        (None, 3),
    ],
)
def test_only_what_the_operator_alone_owns_is_left_out(managed: Any, replicas: int | None) -> None:
    made = job(worker__replicas=3, worker__maxReplicas=4)
    if managed is not None:
        made["metadata"]["managedFields"] = managed
    before = copy.deepcopy(made)
    read = ElasticJob.from_manifest(made)
    assert read.spec.replica_specs["worker"].replicas == replicas
    assert read.spec.replica_specs["worker"].max_replicas == 4
    assert "managedFields" not in read.to_manifest()["metadata"]
    assert made == before


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["f:spec", "convoy-operator", "text"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["manager", "fieldsV1", "f:spec", "f:replicaSpecs", "f:worker"]), inner)
    ),
    max_leaves=6,
)


@given(JSON, JSON)
def test_whatever_stands_there_is_read(managed: Any, spec: Any) -> None:
    as_asked({"metadata": {"name": "job", "managedFields": managed}, "spec": spec})
    as_asked({"metadata": managed, "spec": spec})
    as_asked({"metadata": {"managedFields": [managed, OPERATOR]}, "spec": {"replicaSpecs": spec}})
    as_asked({"metadata": {"managedFields": [managed, OPERATOR]}, "spec": {"replicaSpecs": {"worker": spec}}})
