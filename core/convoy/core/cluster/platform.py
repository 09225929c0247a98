"""On what a process works: this machine, or the Kubernetes cluster that its surroundings name."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from pydantic import Field


class Platform(StrEnum):
    """The two adapters of the port."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


PLATFORM: Any = Field(
    default=Platform.LOCAL,
    description="`local`: this machine; `kubernetes`: what KUBECONFIG or the pod's service account names.",
)
"""The setting ``platform`` of the processes that work on either."""
