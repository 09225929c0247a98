"""A row is judged alike whether it was text or typed, and what it lacks follows from what the models read."""

import math
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.features.columns import COLUMNS
from convoy.brain.ingest.history.absent import UNREAD, absent, without
from convoy.brain.ingest.history.columns import BY_NAME, FILE_COLUMNS, ORIGIN, REQUIRED
from convoy.brain.ingest.history.rows import Fault, RowCheck
from convoy.brain.models.throughput.frame import labels_of, observations_of
from support import history_files

REQUIREMENTS = [BY_NAME[name] for name in REQUIRED]
NUMBERS = [column for column in COLUMNS if column.kind in ("number", "count") and column.name not in REQUIRED]


def judged(values, *, text, column=None):
    columns = [*REQUIREMENTS, *([column] if column else [])]
    try:
        return RowCheck(columns, text=text).row(values)
    except Fault as fault:
        return fault.reason


@given(column=st.sampled_from(NUMBERS), number=st.floats() | st.integers(-(2**63), 2**63 - 1))
def test_a_number_is_taken_or_refused_alike_as_text_and_typed(column, number):
    typed = judged(["a", 1, 1.0, number], text=False, column=column)
    assert typed == judged(["a", "1", "1", repr(number)], text=True, column=column)
    if isinstance(typed, dict):
        assert typed[column.name] == (number if column.kind == "count" else float(number))
        assert column.least <= number <= column.most or (column.zero and number == 0)
        assert math.copysign(1, typed[column.name]) == 1 or number < 0


@given(text=st.text(max_size=300))
def test_a_label_is_taken_or_refused_alike_as_text_and_typed(text):
    assert judged([text, "1", "1"], text=True) == judged([text, 1, 1.0], text=False)


@given(row=history_files.rows())
def test_what_is_within_its_bounds_is_taken(row):
    micros = {"observed_at": None if row["observed_at"] is None else round(row["observed_at"].timestamp() * 1e6)}
    checked = RowCheck(FILE_COLUMNS, text=False).row([{**row, **micros}[column.name] for column in FILE_COLUMNS])
    assert checked == {**row, "observed_at": checked["observed_at"], "status": row["status"] or "ok"}


FRAME = pd.DataFrame(
    {column.name: ["x"] * 3 if column.kind == "label" else [2.0, 2.0, 3.0] for column in COLUMNS}
    | {"strategy": "ps", "mode": "async", "status": "ok", "workers": [4.0, 4.0, 8.0]}
    | {"throughput_sd": [2.0, np.nan, 3.0]}
    | {"observed_at": pd.to_datetime(["2026-01-01", "2026-01-02", "2026-01-03"], utc=True)}
)
"""Two measurements of one configuration, a day apart, and one of another."""


def learned(frame):
    """Return all that predictions of speed take from the rows of a job."""
    seen = observations_of(frame)
    configurations = [getattr(seen.configurations, field.name) for field in fields(seen.configurations)]
    numbers = [*configurations, seen.log_speed, seen.variance, seen.sessions, seen.shown]
    return labels_of(frame), [np.nan_to_num(values, nan=-1.0).tolist() for values in numbers]


TELLING = {
    "strategy": {"strategy": "allreduce"},
    "status": {"status": "oom"},
    "ps_cpu_used": {"ps": 1.0, "ps_cpu_used_max": np.nan},
}
"""Values of columns with which another one matters."""


@pytest.mark.parametrize("column", [column.name for column in COLUMNS if column.name not in REQUIRED])
def test_a_column_counts_as_unread_exactly_if_no_prediction_takes_anything_from_it(column):
    frame = FRAME.assign(**TELLING.get(column, {}))
    assert (learned(frame) == learned(frame.drop(columns=column))) == (column in UNREAD)
    assert (without(column) == "nothing: no prediction of speed reads it") == (column in UNREAD)


@pytest.mark.parametrize(
    ("name", "values", "stands_for"),
    [
        ("nodes", 1.0, "1 is assumed"),
        ("cluster_cpu", np.inf, "unlimited"),
        ("window_seconds", 10.0, "10 s is assumed"),
    ],
)
def test_what_is_said_to_be_assumed_is_what_the_models_take(name, values, stands_for):
    frame = FRAME.assign(throughput_sd=np.nan)
    assert without(name) == stands_for
    assert learned(frame.drop(columns=name)) == learned(frame.assign(**{name: values}))


def test_what_follows_is_said_of_each_column_that_is_absent():
    read, unread = absent(frozenset(column.name for column in FILE_COLUMNS) - {"nodes", "grad_var", ORIGIN})
    assert read == {"nodes": "1 is assumed", ORIGIN: "the file's name stands for it"}
    assert unread == ["grad_var"]


def test_a_required_column_without_a_value_costs_its_rows_and_not_the_file():
    read, _ = absent(frozenset(column.name for column in FILE_COLUMNS) - set(REQUIRED))
    assert read == {
        "job": "each row is refused",
        "workers": "each row is refused",
        "throughput": "each row whose status is ok is refused",
    }
