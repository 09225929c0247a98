"""Settings of the operator: ``convoy operator``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import ClassVar

from pydantic import AliasChoices, Field

from convoy.core.api import names
from convoy.core.api.envelope import VERSION
from convoy.core.cluster.platform import PLATFORM, Platform
from convoy.core.process.paths import state_dir
from convoy.core.process.settings import Settings


class OperatorSettings(Settings):
    """The process that carries out ElasticJobs and ScalePlans, and keeps each job's master."""

    TABLE: ClassVar[str] = "operator"

    platform: Platform = PLATFORM
    namespace: str = Field(
        default=names.SYSTEM_NAMESPACE,
        validation_alias=AliasChoices(names.ENV_POD_NAMESPACE),
        description="The operator's own namespace, where its Lease lies; for Kubernetes.",
    )
    namespaces: list[str] = Field(
        default_factory=list, description="Namespaces whose jobs are carried out; none named: all of them."
    )
    master_account: str | None = Field(
        default=None, description="Service account of masters' pods whose template names none; for Kubernetes."
    )
    master_role: str | None = Field(
        default=None,
        description="ClusterRole that `master_account` is bound to in each job's namespace, where it is made too; "
        "none: somebody else does that.",
    )
    state_dir: Path = Field(default_factory=state_dir, description="Folder of the local cluster and of jobs' files.")
    brain_address: str | None = Field(
        default=None, description="host:port of the Brain for jobs whose spec.brainService names none."
    )
    master_image: str = Field(
        default=f"convoy-train:{VERSION}", description="Image of masters' pods; one machine ignores it."
    )
    master_command: list[str] = Field(
        default_factory=lambda: [sys.executable, "-m", "convoy.cli.main", "master"],
        description="Command of masters' pods; `--job NAME --namespace NS` follow it.",
    )
    workers: int = Field(default=2, ge=1, le=64, description="Jobs that are reconciled at the same time.")
    resync_seconds: float = Field(
        default=30.0, ge=0.1, le=3600, description="After that long all objects are listed anew."
    )
    exit_when_idle: float | None = Field(
        default=None, ge=0, description="Seconds without an unfinished job or a running pod after which to end."
    )
    exit_with: int | None = Field(
        default=None, gt=0, description="Pid of a process with which to end, deleting all pods first."
    )
