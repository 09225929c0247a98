"""A local cluster with a kubelet for each test, and nothing of it afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from convoy.core.cluster.local import LocalCluster, LocalKubelet, open_cluster
from support.pods import end_all


@pytest.fixture
def cluster(state_dir: Path) -> Iterator[LocalCluster]:
    """Return a local cluster without a kubelet."""
    with open_cluster(state_dir) as opened:
        yield opened


@pytest.fixture
def kubelet(cluster: LocalCluster) -> Iterator[LocalKubelet]:
    """Return the cluster's kubelet, started; afterwards all pods are ended and it is stopped."""
    started = LocalKubelet(cluster)
    started.start()
    yield started
    end_all(cluster)
    started.stop()
