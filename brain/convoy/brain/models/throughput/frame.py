"""Frames of observations and of questions: columns, what makes a row unusable, rows merged by configuration.

A frame has one row a measurement, or a question. Columns may be absent or NaN where unknown; those of
``DEFAULTS`` fall back to them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.throughput.physics import Array, Configurations

CHANNELS = ("worker_cpu_used", "ps_cpu_used_max", "compute_seconds")
"""Columns of what nodes show beside speed, in the order of ``Observations.shown``."""

LABELS = ("template", "model", "cluster", "accelerator", "node_type", "strategy", "mode")
"""What may make two jobs alike."""

DEFAULTS = {
    "nodes": 1.0,
    "ps": 0.0,
    "batch_size": np.nan,
    "accumulation_steps": 1.0,
    "accelerators_per_worker": 1.0,
    "worker_cpu": np.nan,
    "ps_cpu": np.nan,
    "cluster_cpu": np.inf,
}
"""What is assumed of a configuration where a row doesn't say; NaN stays unknown."""

SESSION_GAP_SECONDS = 300.0
"""Measurements further apart than this are of different sessions; what disturbs one needn't disturb the next."""

DRIFT_SD = 0.05
"""Standard deviation of what a day changes in log speed (libraries, neighbours, data): older rows count less."""

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
            values = frame[column].to_numpy(dtype=object)
            given = np.flatnonzero(~pd.isna(values))
            text = label_text(column, values[given[0]]) if len(given) else ""
            if text:
                found[column] = text
    return found


def label_text(column: str, value: object) -> str:
    """Return a label as it is compared with others."""
    text = str(value).strip()
    return canonical_model(text) if column == "model" else text


ALIASES = {"imagenet": "resnet50", "ncf": "neumf", "yolo": "yolov3"}
"""Names of data sets that published measurements use for the model trained on them."""


def canonical_model(name: str) -> str:
    """Return one spelling for a model's names: ``ResNet-50``, ``resnet_50`` and ``imagenet`` are ``resnet50``."""
    plain = "".join(letter for letter in name.lower() if letter.isalnum())
    return ALIASES.get(plain, plain)


def names_of(frame: pd.DataFrame, default: str = "") -> NDArray[np.object_]:
    """Return the job of each row; ``default`` where a row doesn't say."""
    return _text(frame, "job", default)


def rows_by_job(names: NDArray[np.object_]) -> tuple[list[str], list[NDArray[np.intp]]]:
    """Return the jobs, in the order in which they appear, and the places of each one's rows."""
    codes, unique = pd.factorize(names)
    order = np.argsort(codes, kind="stable")
    return [str(name) for name in unique], np.split(order, np.cumsum(np.bincount(codes))[:-1]) if len(names) else []


def _column(frame: pd.DataFrame, name: str, default: float) -> Array:
    if name not in frame.columns:
        return np.full(len(frame), default)
    values = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(values), default, values)


def configurations_of(frame: pd.DataFrame) -> tuple[Configurations, NDArray[np.object_]]:
    """Return the configurations of all rows and, for each row, why it can't be one ("" where it can).

    Reasons: ``StrategyNotModelled``, ``InvalidConfiguration``. An unusable row holds one worker.
    """
    columns = {"workers": _column(frame, "workers", np.nan)}
    columns.update({name: _column(frame, name, default) for name, default in DEFAULTS.items()})
    reasons: NDArray[np.object_] = np.full(len(frame), "", dtype=object)
    strategy, mode = _text(frame, "strategy"), _text(frame, "mode")
    # rows that don't say are of parameter servers where there are some
    served = (strategy == "ps") | ((strategy == "") & (columns["ps"] > 0))
    columns["ps"] = np.where(served, columns["ps"], 0.0)
    valid = np.ones(len(frame), dtype=bool)
    for name, values in columns.items():
        valid &= _possible(name, values)
    valid &= ~served | (columns["ps"] >= 1)
    reasons[~valid] = "InvalidConfiguration"
    foreign = ~np.isin(strategy, ["ps", "allreduce", ""]) | (served & ~np.isin(mode, ["sync", "async", ""]))
    reasons[foreign] = "StrategyNotModelled"
    valid &= ~foreign
    clean = {name: np.where(valid, values, {"workers": 1.0, **DEFAULTS}[name]) for name, values in columns.items()}
    clean["nodes"] = np.minimum(clean["nodes"], clean["workers"])
    # asynchronous workers have batches of their own: one that nobody told is what samples are counted in
    alone = served & (mode == "async") & np.isnan(clean["batch_size"])
    clean["batch_size"] = np.where(alone, 1.0, clean["batch_size"])
    # a worker without an accelerator computes on its cores, as one device
    clean["accelerators"] = np.maximum(clean.pop("accelerators_per_worker"), 1.0)
    return Configurations(asynchronous=np.where(served & (mode == "async"), 1.0, 0.0), **clean), reasons


def _possible(name: str, values: Array) -> NDArray[np.bool_]:
    unknown = np.isnan(values) if np.isnan(DEFAULTS.get(name, 0.0)) else np.isposinf(values)
    if name not in DEFAULTS or np.isfinite(DEFAULTS[name]):
        unknown = np.zeros(len(values), dtype=bool)
    least = 1.0 if name in ("workers", "nodes", "accumulation_steps") else 0.0
    at_least = values >= least if least or name in ("ps", "accelerators_per_worker") else values > least
    return np.asarray(unknown | (np.isfinite(values) & at_least & (values < 1e12)))


def _text(frame: pd.DataFrame, name: str, default: str = "") -> NDArray[np.object_]:
    """Return a column of labels, ``default`` where a row doesn't say."""
    text: NDArray[np.object_] = np.full(len(frame), default, dtype=object)
    if name in frame.columns:
        values = frame[name].to_numpy(dtype=object)
        given = ~pd.isna(values)
        text[given] = [str(value) for value in values[given]]
    return text


@dataclass(frozen=True)
class Observations:
    """What one job showed, one entry a configuration: log of samples/s, its variance without drift, and sessions."""

    configurations: Configurations
    log_speed: Array
    variance: Array
    sessions: Array
    shown: Array
    """What the nodes showed beside speed, (channels, k), of ``CHANNELS``; NaN where unknown."""
    group: str = ""
    """The hardware that it ran on."""

    def __len__(self) -> int:
        return len(self.log_speed)

    @property
    def table(self) -> Array:
        """All numbers, a row a configuration; with the group all that there is."""
        arrays = [getattr(self.configurations, one.name) for one in fields(Configurations)]
        return np.column_stack([*arrays, self.log_speed, self.variance, self.sessions, *self.shown])

    @classmethod
    def of(cls, table: Array, group: str) -> Observations:
        """Return the observations of a ``table``."""
        names = [one.name for one in fields(Configurations)]
        columns = np.ascontiguousarray(table.T)
        configurations = Configurations(**dict(zip(names, columns, strict=False)))
        log_speed, variance, sessions, *shown = columns[len(names) :]
        return cls(configurations, log_speed, variance, sessions, np.array(shown), group)

    @property
    def content(self) -> bytes:
        """What tells these observations from others, but for the group."""
        return self.table.tobytes()

    def relative(self, batch: float) -> Observations:
        """Return the observations with samples counted in units of ``batch``."""
        return replace(
            self, configurations=self.configurations.relative(batch), log_speed=self.log_speed - np.log(batch)
        )

    def take(self, kept: NDArray[np.intp]) -> Observations:
        """Return the observations at ``kept``."""
        return Observations(
            self.configurations.take(kept),
            self.log_speed[kept],
            self.variance[kept],
            self.sessions[kept],
            self.shown[:, kept],
            self.group,
        )

    def thinned(self, most: int) -> Observations:
        """Return at most ``most`` configurations, spread evenly over all in the order of their features."""
        if len(self) <= most:
            return self
        order = np.lexsort(self.configurations.features.T[::-1])
        return self.take(np.sort(order[np.linspace(0, len(order) - 1, most).round().astype(np.intp)]))


SLOWEST, FASTEST = 1e-9, 1e15
"""Samples/s outside which a figure is no speed of a training job (zero, negative and NaN among them)."""


@dataclass(frozen=True)
class Usable:
    """Rows of a frame that are measurements of a job's speed, one entry each."""

    rows: NDArray[np.intp]
    """Their places in the frame."""
    configurations: Configurations
    log_speed: Array
    variance: Array
    time: Array
    weight: Array
    shown: Array

    def take(self, kept: NDArray[np.intp]) -> Usable:
        """Return the entries at ``kept``."""
        return Usable(
            self.rows[kept],
            self.configurations.take(kept),
            self.log_speed[kept],
            self.variance[kept],
            self.time[kept],
            self.weight[kept],
            self.shown[:, kept],
        )


def usable_of(frame: pd.DataFrame) -> Usable:
    """Return the rows that can be learned from: configurations that ran well, and at a speed that is one."""
    configurations, reasons = configurations_of(frame)
    speed = _column(frame, "throughput", np.nan)
    reasons[(reasons == "") & ~((speed >= SLOWEST) & (speed <= FASTEST))] = "NotASpeed"
    status = _text(frame, "status")
    bad = ~np.isin(status, ["ok", ""])
    reasons[bad] = status[bad]
    rows = np.flatnonzero(reasons == "")
    speed = speed[rows]
    window = np.maximum(_column(frame, "window_seconds", 10.0)[rows], 1e-3)
    own = _column(frame, "throughput_sd", np.nan)[rows] / speed
    assumed = WINDOW_NOISE * np.sqrt(10.0 / window)
    noise = np.where(np.isfinite(own) & (own > 0), np.minimum(own, 1.0), np.minimum(assumed, 0.3))
    time = _seconds(frame)[rows]
    shown = np.vstack([_column(frame, name, np.nan)[rows] for name in CHANNELS])
    # the only server is the largest
    alone = np.where(configurations.ps[rows] == 1, _column(frame, "ps_cpu_used", np.nan)[rows], np.nan)
    shown[1] = np.where(np.isnan(shown[1]), alone, shown[1])
    with np.errstate(invalid="ignore"):
        shown = np.where((shown > 1e-12) & (shown < 1e12), shown, np.nan)
    return Usable(rows, configurations.take(rows), np.log(speed), noise**2, time, window, shown)


def _seconds(frame: pd.DataFrame) -> Array:
    """Return ``observed_at`` in seconds since 1970 (n,); numbers are that already. NaN where it isn't a moment."""
    if "observed_at" not in frame.columns:
        return np.full(len(frame), np.nan)
    given = frame["observed_at"]
    if pd.api.types.is_numeric_dtype(given):
        return _column(frame, "observed_at", np.nan)
    stamps = pd.to_datetime(given, utc=True, errors="coerce", format="ISO8601")
    # in microseconds no year that can be written is out of bounds
    moments = stamps.dt.tz_localize(None).to_numpy().astype("datetime64[us]")
    return np.where(np.isnat(moments), np.nan, moments.astype(np.int64) / 1e6)


def _key(configurations: Configurations) -> Array:
    """Return what tells configurations apart, (fields, n)."""
    columns = [getattr(configurations, field.name) for field in fields(configurations)]
    table: Array = np.array(columns)
    return np.asarray(np.round(np.where(np.isnan(table), -1.0, table), 6), dtype=np.float64)


def _groups(configurations: Configurations) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return of each row its configuration's number (n,), in sorted order, and how many rows each has."""
    columns = _key(configurations)
    order = np.lexsort(columns[::-1])
    ordered = columns[:, order]
    number = np.concatenate([[0], np.cumsum(np.any(ordered[:, 1:] != ordered[:, :-1], axis=0))])
    group = np.empty(len(order), dtype=np.intp)
    group[order] = number
    return group, np.bincount(group)


def observations_of(frame: pd.DataFrame) -> Observations:
    """Merge the usable rows of one job by configuration, as ``merged`` does."""
    return merged(usable_of(frame))


def merged(usable: Usable) -> Observations:
    """Merge the measurements of one job by configuration.

    A configuration's log speed is a mean in which rows far from the median count less (weights of a Student-t with
    four degrees of freedom), so that one stray window changes little however far it strays, and older ones less. What
    its nodes showed is the median.
    """
    if not len(usable.log_speed):
        empty = np.zeros(0)
        return Observations(usable.configurations, empty, empty, empty, usable.shown)
    group, size = _groups(usable.configurations)
    if len(size) == len(group):  # nothing to merge
        kept = _longest(usable.weight)
        variance = usable.variance + _drift(usable.time)
        all_of = Observations(usable.configurations, usable.log_speed, variance, np.ones(len(group)), usable.shown)
        return all_of if len(kept) == len(group) else all_of.take(kept)
    age = _drift(usable.time)
    order = np.argsort(group, kind="stable")
    bounds = np.concatenate([[0], np.cumsum(size)])
    first = order[bounds[:-1]]
    speeds, variances, sessions, length = (np.zeros(len(first)) for _ in range(4))
    shown = np.full((len(CHANNELS), len(first)), np.nan)
    for index in range(len(first)):
        rows = order[bounds[index] : bounds[index + 1]]
        rows = rows[np.argsort(usable.time[rows], kind="stable")]
        speeds[index], variances[index] = _robust_mean(usable.log_speed[rows], usable.variance[rows], age[rows])
        sessions[index] = _sessions(usable.time[rows])
        length[index] = usable.weight[rows].sum()
        shown[:, index] = [_median(values) for values in usable.shown[:, rows]]
    together = Observations(usable.configurations.take(first), speeds, variances, sessions, shown)
    return together.take(_longest(length))


def _longest(length: Array) -> NDArray[np.intp]:
    """Return the places, in order, of the ``MAX_CONFIGURATIONS`` that were measured longest."""
    if len(length) <= MAX_CONFIGURATIONS:
        return np.arange(len(length))
    return np.sort(np.argsort(-length, kind="stable")[:MAX_CONFIGURATIONS])


def group_of(labels: dict[str, str]) -> str:
    """Return what names a job's hardware; jobs of one group share what the physics gets wrong of it."""
    return "/".join(labels.get(name, "") for name in ("cluster", "accelerator", "node_type"))


def _median(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan


def _drift(time: Array) -> Array:
    """Return the variance (n,) that rows have by lying before the newest one; 0 where no time is known."""
    known = np.isfinite(time)
    if not known.any():
        return np.zeros(len(time))
    days = np.where(known, np.max(time, initial=-np.inf, where=known) - time, 0.0) / 86400.0
    return np.asarray(DRIFT_SD**2 * days)


def _robust_mean(values: Array, variance: Array, drift: Array) -> tuple[float, float]:
    """Return a mean of log speeds, in the order of time, and its variance: from the rows' own and from their scatter.

    Scatter is that of neighbours in time, so that a job that has become slower isn't taken for a noisy one.
    """
    if len(values) == 1:
        return float(values[0]), float(variance[0] + drift[0])
    center = float(np.median(values))
    apart = np.abs(np.diff(values)) / np.sqrt(2.0) if drift.any() else np.abs(values - center)
    scatter = float(np.median(apart) * 1.4826) ** 2
    spread = np.maximum(variance, scatter) + drift + 1e-12
    if drift.any():
        center = float(np.sum(values / spread) / np.sum(1.0 / spread))
    weight = np.ones(len(values))
    for _ in range(3):
        weight = 5.0 / (4.0 + (values - center) ** 2 / spread)
        center = float(np.sum(weight / spread * values) / np.sum(weight / spread))
    return center, float(1.0 / np.sum(weight / spread))


def _sessions(times: Array) -> float:
    """Return in how many sessions the rows were measured; rows without a time count as one session together."""
    known = np.sort(times[np.isfinite(times)])
    return 1.0 + float(np.sum(np.diff(known) > SESSION_GAP_SECONDS)) if len(known) else 1.0


def repeat_scatter(usable: Usable) -> tuple[float, float]:
    """Return the summed squared deviation of log speed among a job's rows of equal configuration, and its freedom.

    What the rows' own standard deviations explain is taken off; deviations are cut at 30 %, so that one wrecked
    measurement doesn't set the noise of all.
    """
    if len(usable.log_speed) < 2:
        return 0.0, 0.0
    group, size = _groups(usable.configurations)
    if len(size) == len(group):  # nothing is repeated
        return 0.0, 0.0
    mean = np.bincount(group, usable.log_speed) / size
    deviation = np.clip(usable.log_speed - mean[group], -0.3, 0.3)
    excess = deviation**2 - usable.variance * (1.0 - 1.0 / size[group])
    return max(0.0, float(excess.sum())), float(len(group) - len(size))
