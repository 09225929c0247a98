"""Names follow from (job, role, id): the same question meets the same name, another never does."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api import names

JOBS = st.from_regex(r"[a-z]([a-z0-9]{0,12}[a-z0-9])?", fullmatch=True)
NODES = st.tuples(JOBS, st.sampled_from(names.NODE_ROLES), st.integers(0, 10_000))
LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


@given(NODES, NODES)
def test_pods_of_different_nodes_have_different_names(one: tuple[str, str, int], other: tuple[str, str, int]) -> None:
    assert (names.pod(*one) == names.pod(*other)) == (one == other)


@given(NODES)
def test_names_are_dns_labels(node: tuple[str, str, int]) -> None:
    job, _role, number = node
    made = (
        names.pod(*node),
        names.service(*node),
        names.master_pod(job, number),
        names.master_service(job),
        names.token_secret(job),
        names.scale_plan(job, number),
    )
    assert all(LABEL.fullmatch(name) for name in made)
    assert len({*made}) == len(made) - 1  # a pod's and a service's are alike, and are objects of different kinds


def test_scripts_find_the_names_they_count_on() -> None:
    assert names.pod("job", names.WORKER, 0) == "job-edljob-worker-0"
    assert names.master_pod("job", 0) == "elasticjob-job-dlrover-master-0"
    assert names.master_service("job") == "elasticjob-job-dlrover-master"
    labels = names.pod_labels("job", names.WORKER, node_id=4, rank=1, relaunches=2)
    assert labels["elasticjob.dlrover/name"] == "job"
    assert labels["elasticjob.dlrover/replica-type"] == "worker"
    assert labels["elasticjob.dlrover/replica-index"] == "4"
    assert labels["elasticjob.dlrover/rank-index"] == "1"
    assert labels["elasticjob.dlrover/relaunch-count"] == "2"
