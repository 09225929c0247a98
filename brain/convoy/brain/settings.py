"""Settings of the Brain: ``convoy brain ...`` and the Brain's server."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, SecretStr

from convoy.core.process import paths
from convoy.core.process.settings import Settings


class BrainSettings(Settings):
    """The Brain: where its database is, where it listens, and what it counts with."""

    TABLE: ClassVar[str] = "brain"

    state_dir: Path = Field(
        default_factory=paths.state_dir, description="Folder of the local cluster and of jobs' files."
    )
    database_url: SecretStr | None = Field(
        default=None,
        description="The store: sqlite:////absolute/path/brain.db or mysql://USER:PASSWORD@HOST:3306/DATABASE. "
        "Default: brain.db in the state directory.",
    )
    database_wait_seconds: float = Field(
        default=0.0,
        ge=0.0,
        le=3600.0,
        description="How long a starting Brain waits for a database server that doesn't answer yet. 0: not at all.",
    )
    brain_host: str = Field(
        default="127.0.0.1",
        min_length=1,
        description="Address at which the Brain listens. Other machines' masters need 0.0.0.0, and brain_token set.",
    )
    brain_port: int = Field(
        default=50001,
        ge=0,
        le=65535,
        description="Port at which the Brain listens. 0: the kernel chooses a free one.",
    )
    brain_token: SecretStr = Field(
        default=SecretStr(""),
        description="What masters have to show. Empty: everyone may call; only allowed on a loopback address.",
    )
    brain_threads: int = Field(default=8, ge=1, le=256, description="Calls that are answered side by side.")
    price_cpu_hour: float = Field(
        default=0.04, ge=0.0, allow_inf_nan=False, description="Price of a core for an hour."
    )
    price_gib_hour: float = Field(
        default=0.005, ge=0.0, allow_inf_nan=False, description="Price of a GiB of memory for an hour."
    )
    currency: str = Field(default="USD", min_length=1, max_length=8, description="Currency of the prices.")
    horizon_seconds: float = Field(
        default=3600.0,
        gt=0.0,
        allow_inf_nan=False,
        description="Within what time a change must pay for its restart, where the master names none.",
    )
    trial_seconds: float = Field(
        default=60.0,
        gt=0.0,
        allow_inf_nan=False,
        description="How long a plan assumes that a size is tried, where it weighs whether exploring pays; how long "
        "it is tried follows from the first windows of speed at that size.",
    )
    changes_per_hour: int = Field(
        default=12, ge=0, description="Changes of one job's size an hour after which it is left alone. 0: no limit."
    )
    clock_tolerance_seconds: float = Field(
        default=60.0,
        ge=0.0,
        allow_inf_nan=False,
        description="How far in the future a reported time may lie before its row is refused.",
    )

    def database(self) -> str:
        """Return the store's URL: the given one, else SQLite in the state directory.

        Raises:
            Unusable: none is given and the state directory can't be written.
        """
        if self.database_url is not None and self.database_url.get_secret_value():
            return self.database_url.get_secret_value()
        from convoy.brain.store.engine import default_url

        return default_url(self.state_dir)
