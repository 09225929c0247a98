"""Frames of observations and of questions: columns, what makes a row unusable, rows merged by configuration.

A frame has one row a measurement, or a question. Columns may be absent or NaN where unknown; those of
``DEFAULTS`` fall back to them. Only strategy ``allreduce`` (or none given) is modelled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.physics import Array, Configurations

LABELS = ("template", "model", "cluster", "accelerator", "node_type")
"""What may make two jobs alike."""

DEFAULTS = {"nodes": 1.0, "batch_size": 1.0, "accumulation_steps": 1.0, "worker_cpu": 1.0, "cluster_cpu": np.inf}

SESSION_GAP_SECONDS = 300.0
"""Measurements further apart than this are of different sessions; what disturbs one needn't disturb the next."""

MAX_CONFIGURATIONS = 256
"""Configurations of one job that are kept; those measured longest stay."""

DEFAULT_WINDOW_SECONDS = 300.0

WINDOW_NOISE = 0.05
"""Standard deviation of log speed over a window of 10 s where the row brings none of its own."""


def labels_of(frame: pd.DataFrame) -> dict[str, str]:
    """Return the labels that the rows of one job give, the first given value of each; model names by their alias."""
    found: dict[str, str] = {}
    for column in LABELS:
        if column in frame.columns:
            values = frame[column].dropna()
            text = str(values.iloc[0]).strip() if len(values) else ""
            if text:
                found[column] = canonical_model(text) if column == "model" else text
    return found


ALIASES = {"imagenet": "resnet50", "ncf": "neumf", "yolo": "yolov3"}
"""Names of data sets that published measurements use for the model trained on them."""


def canonical_model(name: str) -> str:
    """Return one spelling for a model's names: ``ResNet-50``, ``resnet_50`` and ``imagenet`` are ``resnet50``."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    return ALIASES.get(plain, plain)


def _column(frame: pd.DataFrame, name: str, default: float) -> Array:
    if name not in frame.columns:
        return np.full(len(frame), default)
    values = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(values), default, values)


def configurations_of(frame: pd.DataFrame) -> tuple[Configurations, NDArray[np.object_]]:
    """Return the configurations of all rows and, for each row, why it can't be one ("" where it can).

    Reasons: ``StrategyNotModelled``, ``InvalidConfiguration``. An unusable row holds one worker with a batch of one.
    """
    columns = {"workers": _column(frame, "workers", np.nan)}
    columns.update({name: _column(frame, name, default) for name, default in DEFAULTS.items()})
    reasons: NDArray[np.object_] = np.full(len(frame), "", dtype=object)
    valid = np.ones(len(frame), dtype=bool)
    for name, values in columns.items():
        finite = np.isfinite(values) | (np.isposinf(values) if name == "cluster_cpu" else False)
        at_least = 1.0 if name in ("workers", "nodes", "accumulation_steps") else 0.0
        valid &= finite & (values > 0) & (values >= at_least) & ((values < 1e12) | ~np.isfinite(values))
    reasons[~valid] = "InvalidConfiguration"
    if "strategy" in frame.columns:
        strategy = frame["strategy"].astype(object)
        foreign = (strategy.notna() & ~strategy.isin(["allreduce", ""])).to_numpy(dtype=bool)
        reasons[foreign] = "StrategyNotModelled"
        valid &= ~foreign
    fallback = {"workers": 1.0, **DEFAULTS}
    clean = {name: np.where(valid, values, fallback[name]) for name, values in columns.items()}
    clean["nodes"] = np.minimum(clean["nodes"], clean["workers"])
    return Configurations(**clean), reasons


@dataclass(frozen=True)
class Observations:
    """What one job showed, one entry a configuration: log of samples/s, its variance without drift, and sessions."""

    configurations: Configurations
    log_speed: Array
    variance: Array
    sessions: Array

    def __len__(self) -> int:
        return len(self.log_speed)

    @property
    def typical_batch(self) -> float:
        """The geometric mean of the batches observed; 1 where nothing was."""
        return float(np.exp(np.mean(np.log(self.configurations.batch_size)))) if len(self) else 1.0

    def relative(self, batch: float) -> Observations:
        """Return the observations with samples counted in units of ``batch``."""
        return replace(
            self, configurations=self.configurations.relative(batch), log_speed=self.log_speed - np.log(batch)
        )

    def thinned(self, most: int) -> Observations:
        """Return at most ``most`` configurations, spread evenly over all in the order of their features."""
        if len(self) <= most:
            return self
        features = self.configurations.features
        order = np.lexsort(features.T[::-1])
        kept = np.sort(order[np.linspace(0, len(order) - 1, most).round().astype(np.intp)])
        return replace(
            self,
            configurations=self.configurations.take(kept),
            log_speed=self.log_speed[kept],
            variance=self.variance[kept],
            sessions=self.sessions[kept],
        )


SLOWEST, FASTEST = 1e-9, 1e15
"""Samples/s outside which a figure is no speed of a training job (zero, negative and NaN among them)."""


@dataclass(frozen=True)
class _Usable:
    configurations: Configurations
    log_speed: Array
    variance: Array
    time: Array
    weight: Array


def _usable(frame: pd.DataFrame) -> _Usable:
    configurations, reasons = configurations_of(frame)
    speed = _column(frame, "throughput", np.nan)
    reasons[(reasons == "") & ~((speed >= SLOWEST) & (speed <= FASTEST))] = "NotASpeed"
    if "status" in frame.columns:
        status = frame["status"].astype(object)
        bad = (status.notna() & ~status.isin(["ok", ""])).to_numpy(dtype=bool)
        reasons[bad] = status.to_numpy()[bad]
    rows = np.flatnonzero(reasons == "")
    speed = speed[rows]
    window = np.maximum(_column(frame, "window_seconds", 10.0)[rows], 1e-3)
    own = _column(frame, "throughput_sd", np.nan)[rows] / speed
    assumed = WINDOW_NOISE * np.sqrt(10.0 / window)
    noise = np.where(np.isfinite(own) & (own > 0), np.minimum(own, 1.0), np.minimum(assumed, 0.3))
    if "observed_at" in frame.columns:
        stamps = pd.to_datetime(frame["observed_at"], utc=True, errors="coerce", format="ISO8601")
        seconds = (stamps - pd.Timestamp(0, tz="UTC")).dt.total_seconds()
        time = np.asarray(seconds, dtype=np.float64)[rows]
    else:
        time = np.full(len(rows), np.nan)
    return _Usable(configurations.take(rows), np.log(speed), noise**2, time, window)


def _key(configurations: Configurations) -> Array:
    c = configurations
    columns = [c.workers, c.nodes, c.batch_size, c.accumulation_steps, c.worker_cpu, c.cluster_cpu]
    return np.column_stack([np.round(column, 6) for column in columns])


def observations_of(frame: pd.DataFrame) -> Observations:
    """Merge the usable rows of one job by configuration.

    A configuration's log speed is a mean in which rows far from the median count less (weights of a Student-t with
    four degrees of freedom), so that one stray window changes little however far it strays.
    """
    usable = _usable(frame)
    if not len(usable.log_speed):
        empty = np.zeros(0)
        return Observations(usable.configurations, empty, empty, empty)
    _, first, group = np.unique(_key(usable.configurations), axis=0, return_index=True, return_inverse=True)
    group = group.reshape(-1)
    speeds, variances, sessions, length = (np.zeros(len(first)) for _ in range(4))
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(first) + 1))
    for index in range(len(first)):
        rows = order[bounds[index] : bounds[index + 1]]
        speeds[index], variances[index] = _robust_mean(usable.log_speed[rows], usable.variance[rows])
        sessions[index] = _sessions(usable.time[rows])
        length[index] = usable.weight[rows].sum()
    kept = np.arange(len(first))
    if len(kept) > MAX_CONFIGURATIONS:
        kept = np.sort(np.argsort(-length, kind="stable")[:MAX_CONFIGURATIONS])
    return Observations(
        usable.configurations.take(first[kept]),
        speeds[kept],
        variances[kept],
        sessions[kept],
    )


def _robust_mean(values: Array, variance: Array) -> tuple[float, float]:
    """Return a mean of log speeds and its variance, from the rows' own variances and from their scatter."""
    if len(values) == 1:
        return float(values[0]), float(variance[0])
    center = float(np.median(values))
    scatter = float(np.median(np.abs(values - center)) * 1.4826) ** 2
    spread = np.maximum(variance, scatter) + 1e-12
    weight = np.ones(len(values))
    for _ in range(3):
        weight = 5.0 / (4.0 + (values - center) ** 2 / spread)
        center = float(np.sum(weight / spread * values) / np.sum(weight / spread))
    return center, float(1.0 / np.sum(weight / spread))


def _sessions(times: Array) -> float:
    """Return in how many sessions the rows were measured; rows without a time count as one session together."""
    known = np.sort(times[np.isfinite(times)])
    return 1.0 + float(np.sum(np.diff(known) > SESSION_GAP_SECONDS)) if len(known) else 1.0


def repeat_scatter(frame: pd.DataFrame) -> tuple[float, float]:
    """Return the summed squared deviation of log speed among rows of equal configuration, and its freedom.

    What the rows' own standard deviations explain is taken off; deviations are cut at 30 %, so that one wrecked
    measurement doesn't set the noise of all.
    """
    usable = _usable(frame)
    if len(usable.log_speed) < 2:
        return 0.0, 0.0
    _, group = np.unique(_key(usable.configurations), axis=0, return_inverse=True)
    table = pd.DataFrame({"group": group.reshape(-1), "speed": usable.log_speed, "variance": usable.variance})
    grouped = table.groupby("group")
    size = grouped["speed"].transform("size")
    deviation = (table["speed"] - grouped["speed"].transform("mean")).clip(-0.3, 0.3)
    excess = deviation**2 - table["variance"] * (1.0 - 1.0 / size)
    freedom = float((size.groupby(table["group"]).first() - 1).sum())
    return max(0.0, float(excess.sum())), freedom
