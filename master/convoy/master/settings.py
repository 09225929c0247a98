"""Settings of a job's master: ``convoy master``. The operator gives them in the pod's environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from pydantic import AliasChoices, Field, SecretStr

from convoy.core.api import names
from convoy.core.cluster.platform import PLATFORM, Platform
from convoy.core.process import paths
from convoy.core.process.settings import Settings


def _from(*variables: str, default: Any, description: str, **limits: Any) -> Any:
    return Field(default=default, validation_alias=AliasChoices(*variables), description=description, **limits)


class MasterSettings(Settings):
    """A job's master: which job, where it listens, where its state lies, which Brain it asks."""

    TABLE: ClassVar[str] = "master"

    job: str = _from(names.ENV_JOB_NAME, default="", description="The job's name.")
    namespace: str = _from(names.ENV_POD_NAMESPACE, default="default", description="Its namespace.")
    pod: str = _from(names.ENV_POD_NAME, default="", description="Name of the pod in which this master runs.")
    host: str = _from("CONVOY_MASTER_HOST", default="127.0.0.1", description="Address at which the master listens.")
    port: int = _from(
        names.ENV_MASTER_PORT,
        default=names.MASTER_PORT,
        description="Port at which agents call. 0: the kernel chooses one.",
        ge=0,
        le=65535,
    )
    platform: Platform = PLATFORM
    state_dir: Path = Field(default_factory=paths.state_dir, description="Folder of the local cluster.")
    job_dir: Path | None = Field(
        default=None, description="Folder that the job's pods share; default: below the state directory."
    )
    job_token: SecretStr = Field(
        default=SecretStr(""),
        description="What agents have to show. Empty: everyone may call; only allowed on a loopback address.",
    )
    brain_address: str | None = _from(
        names.ENV_BRAIN_ADDRESS, default=None, description="host:port of the Brain, if there is one."
    )
    brain_token: SecretStr = Field(default=SecretStr(""), description="What the Brain asks of its callers.")
    heartbeat_deadline: float = _from(
        "CONVOY_HEARTBEAT_DEADLINE",
        default=15.0,
        description="An agent that is silent for so many seconds is lost.",
        gt=0,
        le=3600,
    )
    horizon_seconds: float = _from(
        "CONVOY_HORIZON_SECONDS",
        default=0.0,
        description="Within what time a change of size must pay for its restart. 0: the Brain's default.",
        ge=0,
    )
