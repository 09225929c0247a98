"""The files of a simulation: jobs, speeds, statistical efficiency, nodes; each refused with what is wrong in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from convoy.brain.simulate.application import Application
from convoy.brain.simulate.cluster import Cluster
from convoy.brain.simulate.speeds import Shape, Speeds
from convoy.brain.simulate.truth import Truth
from convoy.brain.simulate.workload import Submission
from convoy.core.api.errors import InvalidInput

JOBS = ("job", "submitted", "application", "replicas", "global_batch")
SPEEDS = ("model", "gpu", "num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")
EFFICIENCY = ("application", "global_batch", "progress", "iteration", "grad_sqr", "grad_var")
NODES = ("node_type", "nodes", "accelerators_per_node")
PRICE = "accelerator_hour_price"
"""An optional column of the nodes' file."""
ONE_WORKLOAD = ("requests", "load", "workload")
"""Columns of a file with several workloads: each must have one value alone."""
_MOST = {
    "nodes": 1e6, "accelerators_per_node": 1e6, "replicas": 1e6, "global_batch": 1e9,
    "grad_sqr": np.inf, "grad_var": np.inf,
}  # fmt: skip
_MOST_OF_OTHERS = 1e12
"""What is larger is a slip, in whose simulated time or nodes a run would never end. Gradients have no scale: the
first of a run have been measured at 1e14."""


def read_jobs(path: Path) -> list[Submission]:
    """Read a workload: one job a row.

    Raises:
        InvalidInput: the file, a row or a value can't be used.
    """
    frame = _table(path, JOBS, ("job", "application", "user"))
    for column in ONE_WORKLOAD:
        if column in frame.columns and frame[column].nunique() > 1:
            raise InvalidInput(
                f"{path}: column {column} has {frame[column].nunique()} values: expected the rows of one workload; "
                "keep those of one"
            )
    _numbers(path, frame, {"submitted": 0.0, "replicas": 1.0, "global_batch": 1e-9})
    _whole(path, frame, ("replicas",))
    twice = frame["job"][frame["job"].duplicated()]
    if len(twice):
        raise InvalidInput(f"{path}: job {twice.iloc[0]} stands twice: expected one row a job")
    users = frame["user"].fillna("") if "user" in frame.columns else pd.Series("", index=frame.index)
    rows = zip(*(frame[column] for column in JOBS), users, strict=True)
    return [
        Submission(str(job), float(at), str(app), int(replicas), float(batch), str(user))
        for job, at, app, replicas, batch, user in rows
    ]


def read_cluster(path: Path) -> Cluster:
    """Read the nodes: a row for each node type.

    Raises:
        InvalidInput: the file, a row or a value can't be used, or there is no accelerator.
    """
    frame = _table(path, NODES, ("node_type",))
    _numbers(path, frame, {"nodes": 0.0, "accelerators_per_node": 1.0})
    _whole(path, frame, ("nodes", "accelerators_per_node"))
    twice = frame["node_type"][frame.duplicated(["node_type", "accelerators_per_node"])]
    if len(twice):
        raise InvalidInput(f"{path}: nodes of type {twice.iloc[0]} of one size stand twice: give them one row")
    rows = zip(*(frame[column] for column in NODES), strict=True)
    cluster = Cluster.of((str(kind), int(nodes), int(each)) for kind, nodes, each in rows)
    if not cluster.nodes:
        raise InvalidInput(
            f"{path}: no node: expected at least one row with nodes above 0; there is no capacity to plan"
        )
    return cluster


def read_prices(path: Path) -> dict[str, float]:
    """Read the price of an accelerator-hour by node type, where the nodes' file has it.

    Raises:
        InvalidInput: a price isn't a number of 0 or more.
    """
    frame = _table(path, NODES, ("node_type",))
    if PRICE not in frame.columns:
        return {}
    frame = frame[frame[PRICE].notna()]
    _numbers(path, frame, {PRICE: 0.0})
    return dict(zip(frame["node_type"].astype(str), frame[PRICE].astype(float), strict=True))


def read_truth(
    speeds: Path, efficiency: Path, workload: Sequence[Submission], cluster: Cluster, *, noise: bool, seed: int
) -> Truth:
    """Read what is needed of the tables of speeds and of statistical efficiency.

    Raises:
        InvalidInput: a file, a row or a value can't be used; a job's application isn't in them; nodes of the cluster
            have more accelerators than were measured on one.
    """
    names = dict.fromkeys(job.application for job in workload)
    applications = _applications(efficiency, names)
    tables = _speeds(speeds, applications, cluster)
    for name in names:
        if not any(key[0] == name for key in tables):
            raise InvalidInput(
                f"{speeds}: application {name} has no row on {', '.join(cluster.kinds)}: expected its model's name "
                "in column model and a node type of the cluster in column gpu"
            )
    return Truth(applications, tables, noise=noise, seed=seed)


def _applications(path: Path, names: Iterable[str]) -> dict[str, Application]:
    frame = _table(path, EFFICIENCY, ("application",))
    _numbers(
        path, frame, {"global_batch": 1e-9, "progress": 1e-12, "iteration": 0.0, "grad_sqr": 0.0, "grad_var": 0.0}
    )
    groups = dict(list(frame.groupby("application")))
    found = {}
    for name in names:
        if name not in groups:
            there = ", ".join(map(str, groups))
            raise InvalidInput(
                f"{path}: application {name} isn't there: expected one of {there}; measure it, or drop its jobs"
            )
        found[name] = _application(path, name, groups[name])
    return found


def _application(path: Path, name: str, rows: pd.DataFrame) -> Application:
    runs = [run.sort_values("progress") for _, run in rows.groupby("global_batch")]
    epochs = min(len(run) for run in runs)

    def columns(column: str) -> np.ndarray:
        return np.array([run[column].to_numpy(dtype=np.float64)[:epochs] for run in runs])

    ends = columns("progress").min(axis=0)
    if (np.diff(ends) <= 0).any():
        raise InvalidInput(
            f"{path}: application {name}: progress doesn't grow from epoch to epoch; give one row an epoch"
        )
    squares, variances = columns("grad_sqr"), columns("grad_var")
    if ((squares <= 0) & (variances <= 0)).any():
        raise InvalidInput(
            f"{path}: application {name}: grad_sqr and grad_var are both 0 in a row: no gain can be told"
        )
    batches = np.array([float(run["global_batch"].iloc[0]) for run in runs])
    return Application(name, batches, ends, squares, variances, columns("iteration"))


def _speeds(path: Path, applications: dict[str, Application], cluster: Cluster) -> dict[tuple[str, str], Speeds]:
    frame = _table(path, SPEEDS, ("model", "gpu", "placement"))
    frame = frame[frame["model"].isin(list(applications)) & frame["gpu"].isin(cluster.kinds)]
    _numbers(
        path, frame, {"num_nodes": 1.0, "num_replicas": 1.0, "local_bsz": 1e-9, "step_time": 1e-9, "sync_time": 0.0}
    )
    tables = {}
    for (name, kind), rows in frame.groupby(["model", "gpu"]):
        table = Speeds(_rows(rows), applications[str(name)].largest_batch)
        if table.most_per_node < cluster.per_node(str(kind)):
            raise InvalidInput(
                f"{path}: {name} on {kind} was measured with at most {table.most_per_node} accelerators a node, and "
                f"the cluster's nodes have {cluster.per_node(str(kind))}: give nodes of at most {table.most_per_node}"
            )
        tables[str(name), str(kind)] = table
    return tables


def _rows(rows: pd.DataFrame) -> list[tuple[Shape | None, int, int, float, float, float]]:
    placements = rows["placement"] if "placement" in rows.columns else pd.Series(np.nan, index=rows.index)
    shapes = [
        tuple(int(digit) for digit in str(one)) if isinstance(one, str) and one.isascii() and one.isdigit() else None
        for one in placements
    ]
    values = rows[list(SPEEDS[2:])].to_numpy(dtype=np.float64)
    return [
        (shape, int(nodes), int(replicas), batch, step, sync)
        for shape, (nodes, replicas, batch, step, sync) in zip(shapes, values.tolist(), strict=True)
    ]


def _table(path: Path, required: Sequence[str], labels: Sequence[str]) -> pd.DataFrame:
    try:
        frame = pd.read_csv(path, dtype=dict.fromkeys(labels, str))
    except (OSError, ValueError) as error:  # pandas' own parser errors are ValueErrors
        raise InvalidInput(f"{path}: can't be read as CSV: {error}") from error
    missing = [name for name in required if name not in frame.columns]
    if missing:
        raise InvalidInput(
            f"{path}: no column {', '.join(missing)}: expected {','.join(required)}; it has "
            f"{','.join(map(str, frame.columns))}"
        )
    if not isinstance(frame.index, pd.RangeIndex):  # what pandas makes of the fields before those of the head
        raise InvalidInput(f"{path}: its rows have more fields than its head: expected {','.join(required)}")
    if not len(frame):
        raise InvalidInput(f"{path}: no row after its head")
    for column in labels:
        if column in required and frame[column].isna().any():
            raise InvalidInput(f"{path}: line {_line(frame, frame[column].isna())}: {column} is empty")
    return frame


def _numbers(path: Path, frame: pd.DataFrame, least: dict[str, float]) -> None:
    """Check columns, and make them numbers."""
    for column, lowest in least.items():
        values = pd.to_numeric(frame[column], errors="coerce")
        most = _MOST.get(column, _MOST_OF_OTHERS)
        bad = ~np.isfinite(values) | (values < lowest) | (values > most)
        if bad.any():
            raise InvalidInput(
                f"{path}: line {_line(frame, bad)}: {column} is {frame[column][bad].iloc[0]}: expected a number of "
                f"at least {lowest:g} and at most {most:g}"
            )
        frame[column] = values.astype(np.float64)


def _whole(path: Path, frame: pd.DataFrame, columns: Sequence[str]) -> None:
    for column in columns:
        bad = frame[column] % 1 != 0
        if bad.any():
            raise InvalidInput(
                f"{path}: line {_line(frame, bad)}: {column} is {frame[column][bad].iloc[0]:g}: "
                "expected a whole number"
            )


def _line(frame: pd.DataFrame, bad: pd.Series) -> int:
    return int(frame.index[bad.to_numpy()][0]) + 2
