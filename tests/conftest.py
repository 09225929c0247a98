"""What all tests stand on: a home and a guard each, the clock that tests own, and an honest last line."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

from convoy.core.process.quiet import quiet_grpc
from support.clock import FakeClock

quiet_grpc()

pytest_plugins = ["support.home", "support.guard", "support.left_out", "support.servers"]

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("here"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture
def clock() -> FakeClock:
    """Return a clock that moves by ``advance`` alone."""
    return FakeClock()


@pytest.fixture(autouse=True)
def _gpu(request: pytest.FixtureRequest) -> None:
    """Skip what is marked ``gpu`` where there is none."""
    if request.node.get_closest_marker("gpu") is not None:
        import torch

        if not torch.cuda.is_available():
            pytest.skip("no NVIDIA GPU")
