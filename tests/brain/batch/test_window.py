from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.batch.window import Window, last_window
from convoy.core.api.errors import InvalidInput

MOMENTS = st.datetimes(datetime(1970, 1, 3), datetime(2200, 1, 1), timezones=st.just(UTC))
LENGTHS = st.integers(1, 86400).map(lambda seconds: timedelta(seconds=seconds))


@given(MOMENTS, LENGTHS)
def test_the_last_window_is_over_and_no_later_one_is(now, length):
    window = last_window(now, length)
    assert window.end - window.begin == length
    assert window.end <= now < window.next_end


@given(MOMENTS, LENGTHS)
def test_windows_of_a_length_lie_end_to_end(now, length):
    window = last_window(now, length)
    assert last_window(window.next_end, length) == Window(window.end, window.next_end)
    assert last_window(window.end, length) == window


def test_a_day_begins_at_midnight_utc_wherever_one_is():
    now = datetime(2026, 3, 2, 1, 30, tzinfo=timezone(timedelta(hours=3)))
    window = last_window(now, timedelta(days=1))
    assert window == Window(datetime(2026, 2, 28, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
    assert window.shown == "2026-02-28 00:00 to 2026-03-01 00:00 UTC"


@pytest.mark.parametrize("length", [timedelta(0), timedelta(seconds=-1), timedelta(days=400), timedelta(seconds=1.5)])
def test_a_length_that_cant_be_is_refused(length):
    with pytest.raises(InvalidInput, match="from 1 s to 366 days"):
        last_window(datetime.now(UTC), length)
