from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.ingest.prometheus.backfill import planned
from convoy.brain.ingest.prometheus.grid import MOST_STEPS, SAMPLES, ChunkSize, Span
from convoy.brain.ingest.prometheus.watch import Pace
from convoy.core.api.errors import InvalidInput

steps = st.integers(1, 3600)
moments = st.integers(1_700_000_000, 1_900_000_000)


def all_of(span):
    return list(range(span.first, span.last + 1, span.step))


@given(steps, moments, st.integers(0, 100_000), st.floats(0, 1), st.integers(1, 200))
def test_a_moment_is_the_same_whoever_asks_and_in_whatever_chunks(step, since, seconds, later, size):
    whole = Span.within(since, since + seconds, step)
    assert all(moment % step == 0 and since <= moment <= since + seconds for moment in all_of(whole))
    assert set(all_of(Span.within(since + later, since + seconds, step))) <= set(all_of(whole))
    chunks, rest = [], whole
    while len(rest):
        chunk, rest = rest.split(size)
        assert 0 < len(chunk) <= size
        chunks += all_of(chunk)
    assert chunks == all_of(whole)
    assert len(whole) == len(chunks)


@given(st.lists(st.one_of(st.integers(0, 100_000), st.none()), max_size=50))
def test_chunks_stay_below_what_prometheus_takes_and_grow_with_care(answers):
    size, bound = ChunkSize(), MOST_STEPS
    for series in answers:
        if series is None:
            before, size = size, size.halved(size.steps)
            bound = size.steps
            assert size.steps == max(1, before.steps // 2)
        else:
            before, size = size, size.after(series)
            assert size.steps <= before.steps * 8
            assert size.steps == 1 or size.steps * series <= SAMPLES
        assert 1 <= size.steps <= bound <= MOST_STEPS


def test_a_moment_is_due_when_its_samples_have_settled():
    pace = Pace(step=30, settle=10, catch_up=0.0)
    assert [pace.due(now) for now in (99.9, 100.0, 129.9, 130.0)] == [60, 90, 90, 120]


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_a_back_fill_ends_where_samples_have_settled_and_begins_where_rows_are_kept():
    due = int((NOON + timedelta(minutes=10)).timestamp())
    filled = planned(NOON, NOON + timedelta(hours=1), 30, due, NOON + timedelta(minutes=5, seconds=1))
    assert (filled.span.first, filled.span.last) == (due - 270, due)
    assert (len(filled.span), filled.too_old) == (10, 11)


@pytest.mark.parametrize("minutes", [-1, 0.2])
def test_a_range_without_a_moment_is_refused(minutes):
    begin = NOON + timedelta(seconds=1)
    with pytest.raises(InvalidInput, match="no moment lies between them"):
        planned(begin, begin + timedelta(minutes=minutes), 30, int(NOON.timestamp()) + 3600, None)


def test_a_range_that_is_older_than_what_is_kept_is_counted_and_not_asked_for():
    filled = planned(NOON, NOON + timedelta(minutes=5), 30, int(NOON.timestamp()) + 3600, NOON + timedelta(days=1))
    assert (len(filled.span), filled.too_old) == (0, 11)
