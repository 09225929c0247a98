"""The API server that ``make servers`` starts, or the cluster that CONVOY_TEST_KUBECONFIG names: all tests share it.

A test works in a namespace of its own. Pods are stored there and never run: the test plays scheduler and kubelet.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from kubernetes import client

from convoy.core.cluster.kubernetes import KubernetesCluster, open_cluster
from servers.identities import NOBODY, READER
from servers.objects import connected


@pytest.fixture
def kubeconfig() -> Path:
    """Return the kubeconfig, whose current context may do everything."""
    if not os.environ.get("CONVOY_TEST_KUBECONFIG"):
        pytest.skip("no Kubernetes API server runs for the tests")
    return Path(os.environ["CONVOY_TEST_KUBECONFIG"])


@pytest.fixture
def identities(kubeconfig: Path) -> Path:
    """Return the kubeconfig, with the contexts ``reader`` and ``nobody``."""
    contexts = {context["name"] for context in yaml.safe_load(kubeconfig.read_text())["contexts"]}
    if not {READER, NOBODY} <= contexts:
        pytest.skip(f"{kubeconfig} has no contexts {READER} and {NOBODY}, as that of `make servers` has")
    return kubeconfig


@pytest.fixture
def admin(kubeconfig: Path) -> Iterator[client.ApiClient]:
    """Give a client that may do everything."""
    with connected(kubeconfig) as connection:
        yield connection


@pytest.fixture
def cluster(kubeconfig: Path) -> Iterator[KubernetesCluster]:
    """Give the cluster port on it, for who may do everything."""
    with closing(open_cluster(kubeconfig)) as opened:
        yield opened


@pytest.fixture
def namespace(admin: client.ApiClient) -> Iterator[str]:
    """Give a namespace of the test's own; the cluster deletes it, and all in it, after the test."""
    api = client.CoreV1Api(admin)
    name = f"convoy-{uuid.uuid4().hex[:12]}"
    api.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=name)))
    yield name
    api.delete_namespace(name)
