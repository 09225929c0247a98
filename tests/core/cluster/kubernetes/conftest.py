"""A reader, and a whole cluster, whose peer says what the test scripts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from convoy.core.cluster.kubernetes import KubernetesCluster, KubernetesReader
from convoy.core.cluster.kubernetes.connection import Limits
from support import wire_peer
from support.wire_peer import Peer

QUICK = Limits(connect=2.0, answer=1.0, whole=3.0, silence=0.4)


@pytest.fixture
def peer() -> Iterator[Peer]:
    with wire_peer.serve() as serving:
        yield serving


@pytest.fixture
def reader(peer: Peer, home: Path) -> Iterator[KubernetesReader]:
    config = wire_peer.kubeconfig(home, f"http://127.0.0.1:{peer.port}", token="s3cr3t-token")
    with KubernetesReader.open(config, limits=QUICK) as opened:
        yield opened


@pytest.fixture
def cluster(peer: Peer, home: Path) -> Iterator[KubernetesCluster]:
    config = wire_peer.kubeconfig(home, f"http://127.0.0.1:{peer.port}", token="s3cr3t-token")
    with KubernetesCluster.open(config, limits=QUICK) as opened:
        yield opened
