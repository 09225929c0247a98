"""The columns of observations: what the frames hold, what the models read, what an imported file may have.

One row is one job's mean speed, and its load, at one configuration over one stretch of time. All numbers are in base
units: seconds, samples/s, cores, bytes. An empty field is "not known".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["label", "number", "count", "time", "flag"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: ``label`` is text, ``count`` a whole number, ``time`` a moment in UTC, ``flag`` yes or no.

    Attributes:
        name: in frames, files and the table ``history_observation``.
        kind: of its values; numbers and counts are float64 in frames, since NaN is "not known".
        meaning: with the unit.
        least, most: what a value may be; outside of it the unit is likely wrong.
        zero: 0 is allowed too, whatever ``least`` is: there is no such thing in that job.
        choices: what a label may be; empty: anything.
    """

    name: str
    kind: Kind
    meaning: str
    least: float = 0.0
    most: float = 1e15
    choices: tuple[str, ...] = ()
    zero: bool = False


_MIB = float(2**20)
_PIB = float(2**50)


def _cores(name: str, meaning: str) -> Column:
    return Column(name, "number", f"{meaning} (cores)", most=4096.0)


def _bytes(name: str, meaning: str) -> Column:
    return Column(name, "number", f"{meaning} (bytes)", least=_MIB, most=_PIB, zero=True)


COLUMNS: tuple[Column, ...] = (
    Column("job", "label", "which rows belong together"),
    Column("template", "label", "what runs: jobs of one template run the same program"),
    Column("model", "label", "name of the model that is trained"),
    Column("strategy", "label", "how workers share the work", choices=("ps", "allreduce")),
    Column("mode", "label", "whether a step waits for all workers", choices=("sync", "async")),
    Column("cluster", "label", "where it ran"),
    Column("accelerator", "label", "kind of accelerator; empty: none"),
    Column("node_type", "label", "kind of machine"),
    Column("workers", "count", "processes that train", least=1, most=1e6),
    Column("ps", "count", "parameter servers", most=1e6),
    Column("nodes", "count", "machines or pods that the workers are on", least=1, most=1e6),
    Column("accelerators_per_worker", "number", "accelerators of each worker", most=1024.0),
    Column("batch_size", "number", "samples per worker and micro-step", least=1e-9),
    Column("accumulation_steps", "number", "micro-steps per step", least=1),
    _cores("worker_cpu", "allotted to each worker"),
    _cores("ps_cpu", "allotted to each parameter server"),
    Column("cluster_cpu", "number", "cores that the job could have in its cluster (cores)", most=1e7),
    _bytes("worker_memory", "allotted to each worker"),
    _bytes("ps_memory", "allotted to each parameter server"),
    _bytes("worker_memory_used", "used by each worker, mean"),
    _bytes("ps_memory_used", "used by each parameter server, mean"),
    _cores("worker_cpu_used", "used by each worker, mean"),
    _cores("ps_cpu_used", "used by each parameter server, mean"),
    _cores("ps_cpu_used_max", "used by the busiest parameter server, mean over time"),
    Column("compute_seconds", "number", "mean part of a step outside collectives (s)", most=1e5),
    Column("throughput", "number", "mean speed, all workers together (samples/s)", least=1e-12, most=1e12),
    Column("throughput_sd", "number", "standard error of throughput (samples/s)", most=1e12),
    Column("observed_at", "time", "when the measurement ended"),
    Column("window_seconds", "number", "how long was measured (s)", least=1e-6, most=1e8),
    Column("status", "label", "how it went; empty: ok", choices=("ok", "failed", "oom", "warming")),
    Column(
        "grad_sqr",
        "number",
        "squared norm of the mean gradient, an estimate; measured jobs: in `observed` alone, of its last 6 hours",
        least=-1e300,
        most=1e300,
    ),
    Column("grad_var", "number", "variance of the gradient of the job's smallest global batch; as above", most=1e300),
)

BY_NAME: dict[str, Column] = {column.name: column for column in COLUMNS}
NAMES: tuple[str, ...] = tuple(BY_NAME)
LABELS: tuple[str, ...] = tuple(column.name for column in COLUMNS if column.kind == "label")
