"""Rows of a frame as arrays: what the baselines know of a configuration and of what was measured at it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.state import State

Array = NDArray[np.float64]

UNSTATED, ALLREDUCE, PS, FOREIGN = 0.0, 1.0, 2.0, -1.0
"""Codes of ``Rows.strategy``."""

SLOWEST, FASTEST = 1e-9, 1e15
"""Speeds outside which a figure is none (zero, negative and NaN among them)."""

LARGEST_NUMBER = 1e12


@dataclass(frozen=True)
class Rows:
    """One entry a row; NaN where a row doesn't say. Sizes are counts, times seconds, speeds samples/s."""

    job: Array
    """Place of the row's job in ``names``."""
    strategy: Array
    asynchronous: Array
    """1 where parameter servers don't wait for all workers."""
    workers: Array
    ps: Array
    """Parameter servers; 1 where there are none."""
    nodes: Array
    batch: Array
    """Samples per worker and micro-step."""
    accumulation: Array
    log_speed: Array
    """NaN where nothing usable was measured."""
    compute: Array
    """Seconds of a micro-step outside synchronization."""
    names: tuple[str, ...] = ()
    """Of jobs."""

    def __len__(self) -> int:
        return len(self.workers)

    def take(self, where: NDArray[np.bool_] | NDArray[np.intp]) -> Self:
        """Return some of the rows."""
        return replace(self, **{name: getattr(self, name)[where] for name in _ARRAYS})

    def of_job(self, name: str) -> Self:
        """Return the rows of one job."""
        return self.take(self.job == (self.names.index(name) if name in self.names else -1))

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Whether each row is a configuration: one worker or more, and positive finite sizes where given."""
        sizes = np.column_stack([self.workers, self.ps, self.nodes, self.accumulation])
        whole = np.all(np.isfinite(sizes) & (sizes >= 1.0) & (sizes < LARGEST_NUMBER), axis=1)
        return np.asarray(whole & (np.isnan(self.batch) | ((self.batch > 0) & (self.batch < LARGEST_NUMBER))))

    @property
    def samples(self) -> Array:
        """Samples of one step of all workers together; 1 where the batch isn't known."""
        total = self.workers * self.batch * self.accumulation
        return np.where(np.isfinite(total), total, 1.0)

    @property
    def step_seconds(self) -> Array:
        """Seconds of a step of all workers; where the batch isn't known, of the unit that the speed counts."""
        return self.samples / np.exp(self.log_speed)

    @property
    def features(self) -> Array:
        """Logarithms of workers, servers, nodes and samples a step (n, 4)."""
        return np.log(np.column_stack([self.workers, self.ps, self.nodes, self.samples]))

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Whether each row is a configuration with a speed."""
        return np.asarray(self.valid & np.isfinite(self.log_speed))

    def state(self) -> State:
        """Return the rows as a model file holds them."""
        return State({"jobs": list(self.names)}, {name: getattr(self, name) for name in _ARRAYS})

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the rows of a state."""
        arrays = {name: np.asarray(state.tensors[name], dtype=np.float64) for name in _ARRAYS}
        return cls(**arrays, names=tuple(state.document["jobs"]))


_ARRAYS = tuple(field.name for field in fields(Rows) if field.name != "names")


def rows_of(frame: pd.DataFrame, default_job: str = "") -> Rows:
    """Return all rows of a frame, in its order; ``default_job`` is the job of rows that name none."""
    codes, names = pd.factorize(job_names(frame, default_job))
    workers = _numbers(frame, "workers", np.nan)
    speed = _numbers(frame, "throughput", np.nan)
    usable = (speed >= SLOWEST) & (speed <= FASTEST) & _ran(frame)
    compute = _numbers(frame, "compute_seconds", np.nan)
    return Rows(
        job=codes.astype(np.float64),
        strategy=_strategies(frame),
        asynchronous=(_texts(frame, "mode") == "async").astype(np.float64),
        workers=workers,
        ps=np.maximum(_numbers(frame, "ps", 1.0), 1.0),
        nodes=np.minimum(_numbers(frame, "nodes", 1.0), np.where(np.isfinite(workers), workers, np.inf)),
        batch=_numbers(frame, "batch_size", np.nan),
        accumulation=_numbers(frame, "accumulation_steps", 1.0),
        log_speed=np.log(np.where(usable, speed, np.nan)),
        compute=np.where((compute > 0) & np.isfinite(compute), compute, np.nan),
        names=tuple(str(name) for name in names),
    )


def job_names(frame: pd.DataFrame, default: str = "") -> NDArray[np.object_]:
    """Return the name of each row's job; ``default`` where it has none."""
    names = _texts(frame, "job")
    names[names == ""] = default
    return names


def _numbers(frame: pd.DataFrame, name: str, default: float) -> Array:
    if name not in frame.columns:
        return np.full(len(frame), default)
    values = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    return np.where(np.isnan(values), default, values)


def _texts(frame: pd.DataFrame, name: str) -> NDArray[np.object_]:
    if name not in frame.columns:
        return np.full(len(frame), "", dtype=object)
    column = frame[name].astype(object)
    return column.where(column.notna(), "").astype(str).to_numpy(dtype=object)


def _ran(frame: pd.DataFrame) -> NDArray[np.bool_]:
    status = _texts(frame, "status")
    return np.asarray((status == "") | (status == "ok"), dtype=np.bool_)


def _strategies(frame: pd.DataFrame) -> Array:
    text = _texts(frame, "strategy")
    known = {"": UNSTATED, "allreduce": ALLREDUCE, "ps": PS}
    return np.array([known.get(one, FOREIGN) for one in text], dtype=np.float64)
