"""Whatever a manifest holds, it becomes a row that the store can hold, or is refused: nothing else is raised."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from convoy.brain.ingest.monitor.parts import Refused
from convoy.brain.ingest.monitor.told import KINDS, Entry, named, translate
from convoy.brain.store.tables import Job, JobEvent, JobNode, Node, ScalePlan
from convoy.core.cluster.port import Change, Kind
from support import cluster_objects as objects

NOW = datetime(2026, 2, 1, tzinfo=UTC)
OWNER = objects.job()
WHOLE = {
    Kind.ELASTIC_JOB: objects.job(phase="Running"),
    Kind.SCALE_PLAN: objects.plan(OWNER, phase="Pending"),
    Kind.POD: objects.pod(OWNER, node="n1", status=objects.ended("OOMKilled", 137)),
    Kind.NODE: objects.node(),
    Kind.EVENT: objects.event(objects.pod(OWNER)),
}
TABLES = {
    Kind.ELASTIC_JOB: Job,
    Kind.SCALE_PLAN: ScalePlan,
    Kind.POD: JobNode,
    Kind.NODE: Node,
    Kind.EVENT: JobEvent,
}

texts = st.text(max_size=400) | st.sampled_from(
    ["Failed", "True", "0001-01-01T00:00:00Z", "1e400", "9" * 40, "a b\x00"]
)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | texts
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=8
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, held in inner for place in places(held, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    head, *rest = path
    if isinstance(value, dict):
        return {**value, head: put(value[head], tuple(rest), new)}
    return [put(held, tuple(rest), new) if number == head else held for number, held in enumerate(value)]


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Kind, Any]:
    """Draw a kind, and a right manifest of it with a few places that hold anything."""
    kind = draw(st.sampled_from(KINDS))
    manifest: Any = WHOLE[kind]
    for _ in range(draw(st.integers(1, 4))):
        manifest = put(manifest, draw(st.sampled_from(places(manifest))), draw(anything))
    return kind, manifest


def fits(entry: Entry) -> None:
    """Assert that the table has room for each value of the row."""
    columns = TABLES[entry.kind].__table__.columns
    assert entry.row is not None
    for name, value in entry.row.items():
        if name not in columns or value is None:
            continue
        kind = columns[name].type
        if isinstance(value, str):
            value.encode()
            assert getattr(kind, "length", None) is None or len(value) <= kind.length, name
        elif isinstance(value, int) and not isinstance(value, bool):
            assert abs(value) < (2**63 if kind.python_type is int and "BIG" in str(kind) else 2**31), name
        elif isinstance(value, float):
            assert 0 <= value < float("inf"), name


@given(spoilt(), st.sampled_from(["ADDED", "MODIFIED", "DELETED"]))
@example((Kind.POD, put(WHOLE[Kind.POD], ("spec", "containers"), [None, {"name": "main", "resources": 3}])), "ADDED")
@example((Kind.NODE, put(WHOLE[Kind.NODE], ("status", "capacity", "memory"), "9223372036854775807.5")), "ADDED")
@example((Kind.EVENT, put(WHOLE[Kind.EVENT], ("lastTimestamp",), "0001-01-01T00:00:00+23:59")), "ADDED")
@example((Kind.ELASTIC_JOB, put(WHOLE[Kind.ELASTIC_JOB], ("metadata", "uid"), "\ud800")), "ADDED")
def test_a_spoilt_manifest_becomes_a_row_that_fits_or_is_refused(given: tuple[Kind, Any], change: Any) -> None:
    kind, manifest = given
    try:
        entry = translate(kind, Change(change, manifest), "user", NOW)
    except Refused:
        named(manifest).encode()
        return
    if entry is not None and entry.row is not None:
        fits(entry)
        assert len(entry.faults) <= 20


@given(st.sampled_from([Kind.NODE, Kind.ELASTIC_JOB, Kind.SCALE_PLAN]), anything)
def test_what_is_no_manifest_at_all_is_refused(kind: Kind, value: Any) -> None:
    with pytest.raises(Refused, match=r"metadata\.uid"):
        translate(kind, Change("ADDED", value), "user", NOW)


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_ones_are_stored_without_a_fault(kind: Kind) -> None:
    entry = translate(kind, Change("ADDED", WHOLE[kind]), "user", NOW)
    assert entry is not None
    assert entry.faults == ()
    fits(entry)
