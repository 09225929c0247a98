"""What a job's workers and parameter servers would use of CPU and memory at configurations that it hasn't seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.load.cores import cores_used
from convoy.brain.models.load.line import Line, Readings, learn_line, of_relatives
from convoy.brain.models.load.readings import (
    LEAST,
    LINES,
    MOST,
    by_job,
    numbers,
    ran,
    read_points,
    sizes,
    used_at,
)
from convoy.brain.models.state import State
from convoy.brain.models.throughput import ThroughputModel, channels
from convoy.brain.models.throughput.frame import configurations_of, labels_of
from convoy.brain.models.throughput.kinds import kind_of
from convoy.brain.models.throughput.physics import Array

QUANTITIES = ("worker_cpu", "ps_cpu", "worker_memory", "ps_memory")
PARTS = ("mean", "lower", "upper")
DEFINED = ("Observed", "Interpolated", "Extrapolated", "HistoryOnly", "NoHistory")
"""Reasons of answers; all others are of NaN."""

Reasons = NDArray[np.object_]


@dataclass(frozen=True)
class _Job:
    """Readings of one quantity by one job."""

    name: str
    template: str
    readings: Readings


class LoadModel:
    """Cores and bytes that each worker and each parameter server uses, from a history and a job's own readings.

    Frames are ``ThroughputModel``'s; of their columns ``{worker,ps}_cpu_used`` (cores) and
    ``{worker,ps}_memory_used`` (bytes) are what is learned, each a mean over the workers or servers;
    ``{worker,ps}_{cpu,memory}`` are what one is allotted, and bound the answer.

    A worker's CPU follows from the same physics as speed: it is busy while it computes (``cores``). All else is a
    line in logarithms, jobs partly pooled (``line``, ``readings``); a server's cores go through a saturation at the
    allotment. ``ps_cpu`` is of the mean server, since that is what a job pays for: the busiest one, which bounds the
    speed, is the throughput model's. Where only that was read (``ps_cpu_used_max``), it stands for the mean. None of
    these is a limit: use at a limit's rate of kills is the memory model's matter.

    Undefined, that is NaN, with the reason in ``{quantity}_reason``:
      - ``InvalidConfiguration``, ``StrategyNotModelled``: the question is none;
      - ``NoServers``: of servers, with all-reduce;
      - ``NoReading``: neither the job nor the history has shown this quantity.

    Reasons of defined quantities: ``Observed``, ``Interpolated``, ``Extrapolated``, ``HistoryOnly``, ``NoHistory``,
    as ``ThroughputModel`` has them, by the sizes that the quantity goes with.
    """

    def __init__(self, seed: int = 0) -> None:
        self.speed_ = ThroughputModel(seed)
        self.busy_: list[str] = []
        """Kinds of jobs whose workers' cores the history shows."""
        self.jobs_: dict[str, list[_Job]] = {name: [] for name in LINES}
        """Of each line's quantity, the history's jobs that show it."""

    def fit(self, history: pd.DataFrame, speed: ThroughputModel | None = None) -> LoadModel:
        """Learn from measurements of past jobs; an empty history is allowed.

        Args:
            history: the measurements.
            speed: a throughput model that is fitted already, to use instead of one that is fitted to ``history``.
        """
        self.speed_ = self.speed_.fit(history) if speed is None else speed
        busy: set[str] = set()
        self.jobs_ = {name: [] for name in LINES}
        for name, rows in by_job(history):
            configurations, why = configurations_of(rows)
            used = numbers(rows, "worker_cpu_used")
            read = np.flatnonzero((why == "") & ran(rows) & (used > LEAST) & (used < MOST))
            if len(read):
                busy.add(kind_of(configurations.take(read)))
            for quantity, jobs in self.jobs_.items():
                readings, _ = read_points(quantity, rows)
                if len(readings):
                    jobs.append(_Job(name, labels_of(rows).get("template", ""), readings))
        self.busy_ = sorted(busy)
        return self

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict what one worker and one server use.

        Args:
            observed: measurements of the jobs asked about; may be empty. Rows of the history of the same jobs are
                ignored.
            query: one row a question.
            level: probability of the interval, that of one more reading, in (0, 1).

        Returns:
            A frame with the query's index and, for each of ``worker_cpu``, ``ps_cpu`` (cores), ``worker_memory``,
            ``ps_memory`` (bytes), ``*_mean`` (exp of the mean logarithm of what was wanted), ``*_lower``,
            ``*_upper`` and ``*_reason``; and ``reason``: that of the first defined quantity, else of the first.

        Raises:
            ValueError: ``level`` isn't within (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level is {level}: expected a probability between 0 and 1, such as 0.9")
        configurations, why = configurations_of(query)
        columns: dict[str, Any] = {}
        for name in QUANTITIES:
            found, reasons = (
                self._line(name, observed, query, level) if name in LINES else self._busy(observed, query, level)
            )
            if name.startswith("ps_"):
                reasons[configurations.ps <= 0] = "NoServers"
            reasons[why != ""] = why[why != ""]
            found[~np.isin(reasons, DEFINED)] = np.nan
            columns.update({f"{name}_{part}": found[:, place] for place, part in enumerate(PARTS)})
            columns[f"{name}_reason"] = reasons
        frame = pd.DataFrame(columns, index=query.index)
        return frame.assign(reason=_first_defined(frame))

    def _busy(self, observed: pd.DataFrame, query: pd.DataFrame, level: float) -> tuple[Array, Reasons]:
        """Return numbers (n, 3) and reasons of workers' cores."""
        found = np.full((len(query), 3), np.nan)
        reasons = self.speed_.predict(observed, query, level)["reason"].to_numpy(dtype=object).copy()
        reasons[reasons == "NothingKnown"] = "NoReading"
        for asked in self.speed_._asked(observed, query):
            if asked.posterior is None or not len(asked.usable):
                continue
            shown = bool((asked.posterior.seen.channel == channels.WORKER).any())
            if shown or kind_of(asked.configurations) in self.busy_:
                found[asked.usable] = cores_used(asked.posterior, asked.configurations, channels.WORKER, level)
            else:
                reasons[asked.usable] = "NoReading"
        most = numbers(query, "worker_cpu")
        return np.minimum(found, np.where(most > 0, most, np.inf)[:, None]), reasons

    def _line(self, name: str, observed: pd.DataFrame, query: pd.DataFrame, level: float) -> tuple[Array, Reasons]:
        """Return numbers (n, 3) and reasons of a quantity that is a line."""
        found = np.full((len(query), 3), np.nan)
        reasons: Reasons = np.full(len(query), "NoReading", dtype=object)
        seen = dict(by_job(observed))
        alone = next(iter(seen)) if len(seen) == 1 else ""
        for job, rows in by_job(query, alone):
            places = np.asarray(rows["__row__"], dtype=np.intp)
            shown = seen.get(job, observed.iloc[:0])
            own, usual = read_points(name, shown)
            labels = {**labels_of(shown), **labels_of(rows)}
            line = self._expected(name, job, labels.get("template", ""), own)
            if line is not None:
                size = sizes(name, rows)
                size = size - (usual if len(own) else size.mean(axis=0))
                y = line.given(own).at(size, level)
                found[places] = used_at(name, y, numbers(rows, name)[:, None])
                reasons[places] = _reasons(own, size, bool(self.jobs_[name]))
        return found, reasons

    def _expected(self, name: str, job: str, template: str, own: Readings) -> Line | None:
        """Return what is known of a job's line but for its own readings; None: nothing."""
        others = [one for one in self.jobs_[name] if one.name != job]
        if not others:
            return LINES[name].line(float(own.used.mean())) if len(own) else None
        line = learn_line(LINES[name], [one.readings for one in others])
        return of_relatives(line, [one.readings for one in others if template and one.template == template])

    @property
    def history_jobs(self) -> int:
        """Jobs that were learned from."""
        return self.speed_.history_jobs

    def state(self) -> State:
        """Return what was learned, for a model file."""
        speed = self.speed_.state()
        described: dict[str, Any] = {}
        tensors = {f"speed.{name}": tensor for name, tensor in speed.tensors.items()}
        for name, jobs in self.jobs_.items():
            described[name] = [
                {"name": one.name, "template": one.template, "rows": len(one.readings)} for one in jobs
            ]
            nothing = np.zeros((0, len(LINES[name].slopes)))
            tensors[f"{name}.size"] = np.concatenate([nothing, *(one.readings.size for one in jobs)])
            tensors[f"{name}.used"] = np.concatenate([np.zeros(0), *(one.readings.used for one in jobs)])
        return State({"speed": speed.document, "busy": self.busy_, "jobs": described}, tensors)

    @classmethod
    def restored(cls, state: State) -> LoadModel:
        """Return the model that ``state`` was taken of."""
        model = cls()
        tensors = {name[6:]: tensor for name, tensor in state.tensors.items() if name.startswith("speed.")}
        model.speed_ = ThroughputModel.restored(State(state.document["speed"], tensors))
        model.busy_ = list(state.document["busy"])
        for name in LINES:
            described = state.document["jobs"][name]
            bounds = np.cumsum([0, *(one["rows"] for one in described)])
            size, used = (np.asarray(state.tensors[f"{name}.{part}"], dtype=np.float64) for part in ("size", "used"))
            model.jobs_[name] = [
                _Job(one["name"], one["template"], Readings(size[start:stop], used[start:stop]))
                for one, start, stop in zip(described, bounds[:-1], bounds[1:], strict=True)
            ]
        return model


def _first_defined(frame: pd.DataFrame) -> Reasons:
    table = frame[[f"{name}_reason" for name in QUANTITIES]].to_numpy(dtype=object)
    first = np.argmax(np.isin(table, DEFINED), axis=1)
    return np.asarray(table[np.arange(len(table)), first], dtype=object)


def _reasons(own: Readings, asked: Array, history: bool) -> Reasons:
    """Return how each size (n, d) that is asked about lies to those that a job has shown."""
    if not len(own):
        return np.full(len(asked), "HistoryOnly", dtype=object)
    inside = np.all((asked >= own.size.min(axis=0) - 1e-6) & (asked <= own.size.max(axis=0) + 1e-6), axis=1)
    distance = np.min(np.max(np.abs(asked[:, None, :] - own.size[None, :, :]), axis=2), axis=1)
    beyond = "Extrapolated" if history else "NoHistory"
    return np.where(distance < 1e-6, "Observed", np.where(inside, "Interpolated", beyond)).astype(object)
