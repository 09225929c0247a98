"""A namespace of the tests' API server, which serves the definitions of this checkout."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api_server import admin, identities, kubeconfig, namespace
from support.asked_server import AskedServer, asked_server

__all__ = ["admin", "identities", "kubeconfig", "namespace"]


@pytest.fixture
def server(kubeconfig: Path, namespace: str) -> Iterator[AskedServer]:
    with asked_server(kubeconfig, namespace) as asked:
        yield asked


@pytest.fixture
def asking(kubeconfig: Path) -> Iterator[AskedServer]:
    """Give the default namespace, for what is asked alone: nothing is stored there."""
    with asked_server(kubeconfig, "default") as asked:
        yield asked
