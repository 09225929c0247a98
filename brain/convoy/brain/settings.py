"""Settings of the Brain: ``convoy brain ...`` and the Brain's server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, SecretStr

from convoy.core.api.errors import InvalidSetting
from convoy.core.process import paths
from convoy.core.process.settings import Settings

if TYPE_CHECKING:
    from convoy.brain.plan import Prices
    from convoy.brain.store.retention import Retention


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
    brain_threads: int = Field(default=8, ge=1, le=64, description="Calls that are answered side by side.")
    price_cpu_hour: float = Field(
        default=0.04, ge=0.0, allow_inf_nan=False, description="Price of a core for an hour."
    )
    price_gib_hour: float = Field(
        default=0.005, ge=0.0, allow_inf_nan=False, description="Price of a GiB of memory for an hour."
    )
    price_accelerator_hour: float = Field(
        default=2.5, ge=0.0, allow_inf_nan=False, description="Price of an accelerator for an hour."
    )
    currency: str = Field(default="USD", min_length=1, max_length=8, description="Currency of the prices.")
    objective: Literal["throughput", "cost", "deadline"] = Field(
        default="throughput",
        description="What jobs that say nothing (annotation `convoy/objective`) are planned for: the most samples a "
        "second, the most samples for the money, or the cheapest size that meets the job's deadline.",
    )
    oom_rate: float = Field(
        default=0.01,
        gt=0.0,
        lt=1.0,
        description="Share of pods that may be killed for their memory within a day, by which memory is recommended.",
    )
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

    cluster: str = Field(
        default="default",
        min_length=1,
        max_length=255,
        description="Name of the watched cluster in the store. Each cluster that shares a store needs its own.",
    )
    user_label: str = Field(
        default="user",
        min_length=1,
        max_length=317,
        description="Label of an ElasticJob that says whose it is, for `convoy brain monitor`. Masters go by `user`.",
    )
    monitor_report_seconds: float = Field(
        default=300.0,
        ge=1.0,
        allow_inf_nan=False,
        description="How often `convoy brain monitor` logs what it stored and what it left out.",
    )
    prometheus_url: SecretStr | None = Field(
        default=None,
        description="Where node load is asked for: http://prometheus:9090, https://USER:PASSWORD@HOST/PATH.",
    )
    prometheus_token: SecretStr = Field(
        default=SecretStr(""), description="Bearer token that Prometheus, or the proxy before it, asks for."
    )
    prometheus_ca_file: Path | None = Field(
        default=None, description="PEM file of the authorities that may have signed Prometheus' certificate."
    )
    prometheus_timeout_seconds: float = Field(
        default=30.0, ge=1.0, le=600.0, description="How long Prometheus may take for one answer."
    )
    prometheus_queries: Path | None = Field(
        default=None,
        description="TOML file with queries that take the place of built-in ones (docs/prometheus.md).",
    )
    load_step_seconds: int = Field(
        default=30,
        ge=1,
        le=3600,
        description="Time between two rows of load from Prometheus. A back-fill needs the step that the rest has.",
    )
    load_catch_up_seconds: float = Field(
        default=21600.0,
        ge=0.0,
        allow_inf_nan=False,
        description="How much of a gap in the load, after an outage or a stop, is filled when collecting goes on.",
    )

    models_dir: Path | None = Field(
        default=None,
        description="Folder of fitted models' files. Default: models in the state directory. Brains that share a "
        "store and are to use its models need the same files.",
    )
    models_keep: int = Field(
        default=5,
        ge=1,
        le=1000,
        description="Files of the newest versions that are kept of each model, beside the champion's and its "
        "predecessor's.",
    )
    models_fresh_days: float = Field(
        default=7.0,
        ge=0.0,
        allow_inf_nan=False,
        description="Days after which a champion is stale: a Brain learns from the store instead, and one that is no "
        "worse takes its place. 0: no champion is used.",
    )

    reports_dir: Path | None = Field(
        default=None,
        description="Folder of the reports that `convoy brain batch` writes, one a run. Default: reports in the "
        "state directory.",
    )
    accepted_stands_seconds: float = Field(
        default=21600.0,
        gt=0.0,
        allow_inf_nan=False,
        description="How long a recommendation stands that somebody, or the batch, accepted: its job's master is "
        "answered with it.",
    )
    refused_remembered_seconds: float = Field(
        default=86400.0,
        ge=0.0,
        allow_inf_nan=False,
        description="How long a size that somebody refused isn't recommended to that job again.",
    )

    capacity_file: Path | None = Field(
        default=None,
        description="TOML file of what `convoy brain optimize` and `convoy brain batch` plan all jobs under: quotas, "
        "shares and a budget, and pools of machines where the store knows none (docs/cluster-plan.md).",
    )
    maintain_every_seconds: float = Field(
        default=3600.0,
        ge=0.0,
        le=86400.0,
        allow_inf_nan=False,
        description="How often a serving Brain does by itself what `convoy brain maintain` does. 0: never.",
    )
    keep_speed_days: int = Field(
        default=30,
        ge=0,
        description="Days for which each window of training speed is kept; its sums by minute and hour outlive it. "
        "0, here and below: for ever.",
    )
    keep_load_days: int = Field(default=14, ge=0, description="Days for which each window of load is kept.")
    keep_minutes_days: int = Field(default=180, ge=0, description="Days for which sums by the minute are kept.")
    keep_hours_days: int = Field(
        default=1825,
        ge=0,
        description="Days for which sums by the hour are kept: no fewer than all that they are of.",
    )
    keep_events_days: int = Field(
        default=365, ge=0, description="Days for which events of jobs and machines are kept."
    )
    keep_jobs_days: int = Field(
        default=1825,
        ge=0,
        description="Days for which a job is kept after its last sign, with its attempts, pods, recommendations and "
        "plans; runs of the batch, too.",
    )
    keep_imported_days: int = Field(default=0, ge=0, description="Days for which imported history is kept.")

    def retention(self) -> Retention:
        """Return how long rows are kept.

        Raises:
            InvalidSetting: sums by the hour go before the rows that they are of: what is there couldn't be seen.
        """
        from convoy.brain.store.retention import Retention

        for name in ("keep_speed_days", "keep_load_days", "keep_minutes_days"):
            days = getattr(self, name)
            if self.keep_hours_days and not 0 < days <= self.keep_hours_days:
                raise InvalidSetting(
                    f"keep_hours_days is {self.keep_hours_days} and {name} {days or 'for ever'}: sums by the hour "
                    "have to outlive what they are of; raise CONVOY_KEEP_HOURS_DAYS (0: for ever)"
                )

        return Retention(
            speed=self.keep_speed_days or None,
            load=self.keep_load_days or None,
            minutes=self.keep_minutes_days or None,
            hours=self.keep_hours_days or None,
            events=self.keep_events_days or None,
            jobs=self.keep_jobs_days or None,
            imported=self.keep_imported_days or None,
        )

    def prices(self) -> Prices:
        """Return what resources cost."""
        from convoy.brain.plan import Prices

        return Prices(self.price_cpu_hour, self.price_gib_hour, self.price_accelerator_hour, self.currency)

    def models_folder(self) -> Path:
        """Return the folder of model files: the given one, else ``models`` in the state directory."""
        return self.state_dir / "models" if self.models_dir is None else self.models_dir

    def reports_folder(self) -> Path:
        """Return the folder of the batch's reports: the given one, else ``reports`` in the state directory."""
        return self.state_dir / "reports" if self.reports_dir is None else self.reports_dir

    def database(self) -> str:
        """Return the store's URL: the given one, else SQLite in the state directory.

        Raises:
            Unusable: none is given and the state directory can't be written.
        """
        if self.database_url is not None and self.database_url.get_secret_value():
            return self.database_url.get_secret_value()
        from convoy.brain.store.engine import default_url

        return default_url(self.state_dir)
