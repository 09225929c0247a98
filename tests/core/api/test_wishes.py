from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api import freeze, names
from convoy.core.api.errors import InvalidManifest
from convoy.core.api.wishes import Wishes, readable, wishes

FRIDAY = datetime(2026, 12, 4, 17, 30, tzinfo=UTC)


def until(text: str, now: datetime) -> str | None:
    found = freeze.frozen_until(freeze.windows(text), now)
    return None if found is None else f"{found:%a %m-%d %H:%M}"


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("Mon-Fri 08:00-18:00", "Fri 12-04 18:00"),
        ("08:00-18:00", "Fri 12-04 18:00"),
        ("Sat 08:00-18:00", None),
        ("Thu 22:00-18:00", "Fri 12-04 18:00"),
        ("Fri-Mon 00:00-24:00", "Tue 12-08 00:00"),
        ("2026-12-04T17:30Z/2026-12-05", "Sat 12-05 00:00"),
        ("2026-12-04T18:30+01:00/2026-12-04T19:00+01:00", "Fri 12-04 18:00"),
        ("2026-12-03/2026-12-04", None),
        ("17:00-17:30", None),
        ("17:00-18:00, fri 18:00-20:00", "Fri 12-04 20:00"),
        ("", None),
    ],
)
def test_a_freeze_ends(text: str, end: str | None) -> None:
    assert until(text, FRIDAY) == end


def test_a_freeze_for_ever_ends_in_a_week_and_is_then_another() -> None:
    found = freeze.frozen_until(freeze.windows("00:00-24:00"), FRIDAY)
    assert found is not None
    assert timedelta(days=7) <= found - FRIDAY <= timedelta(days=8)


HOURS = st.integers(0, 23)


@given(HOURS, HOURS, st.datetimes(datetime(2026, 1, 1), datetime(2027, 1, 1), timezones=st.just(UTC)))
def test_a_window_holds_at_each_of_its_hours_and_at_no_other(begin: int, end: int, now: datetime) -> None:
    inside = begin <= now.hour < end if begin < end else now.hour >= begin or now.hour < end
    found = freeze.frozen_until(freeze.windows(f"{begin:02}:00-{end:02}:00"), now)
    assert (found is not None) == inside
    assert found is None or found > now


def test_annotations_are_read() -> None:
    found = wishes(
        {
            names.ANNOTATION_PIN: "True",
            names.ANNOTATION_FREEZE: "2026-12-04/2026-12-05",
            names.ANNOTATION_OBJECTIVE: "deadline",
            names.ANNOTATION_DEADLINE: "2026-12-24T18:00:00Z",
            names.ANNOTATION_TOTAL_SAMPLES: "1e9",
            names.ANNOTATION_ALLOWED_WORKERS: "16, 8,8",
            names.ANNOTATION_MAX_BATCH: "4096",
            "others/are": "left alone",
        }
    )
    assert (found.pinned, found.objective, found.total_samples) == (True, "deadline", 1e9)
    assert (found.allowed_workers, found.max_batch) == ((8, 16), 4096)
    assert found.deadline == datetime(2026, 12, 24, 18, tzinfo=UTC).timestamp()
    assert found.frozen_until(FRIDAY.timestamp()) == datetime(2026, 12, 5, tzinfo=UTC).timestamp()
    assert found.frozen_until(FRIDAY.timestamp() + 86400) == 0.0
    assert wishes({}) == Wishes()


WRONG = [
    (names.ANNOTATION_FREEZE, "on Mondays", "expected days and hours"),
    (names.ANNOTATION_FREEZE, "Mon-Fry 08:00-18:00", "expected days and hours"),
    (names.ANNOTATION_FREEZE, "08:00-25:00", "expected days and hours"),
    (names.ANNOTATION_FREEZE, "2027-01-01/2026-01-01", "ends before it begins"),
    (names.ANNOTATION_FREEZE, "now/then", "expected two moments"),
    (names.ANNOTATION_OBJECTIVE, "beauty", "use one of throughput, cost, deadline"),
    (names.ANNOTATION_DEADLINE, "soon", "expected one such as"),
    (names.ANNOTATION_TOTAL_SAMPLES, "-1", "no number above zero"),
    (names.ANNOTATION_TOTAL_SAMPLES, "nan", "no number above zero"),
    (names.ANNOTATION_ALLOWED_WORKERS, "8;16", "no whole number"),
    (names.ANNOTATION_ALLOWED_WORKERS, "8,0", "'0' is no whole number from 1 on"),
    (names.ANNOTATION_MAX_BATCH, "9" * 30, "no whole number"),
]


@pytest.mark.parametrize(("name", "text", "words"), WRONG)
def test_what_cant_be_read_is_named_and_stops_no_job_that_runs(name: str, text: str, words: str) -> None:
    with pytest.raises(InvalidManifest, match=words) as raised:
        wishes({name: text})
    assert raised.value.path == f"metadata.annotations[{name}]"
    assert readable({name: text, names.ANNOTATION_PIN: "true"}) == Wishes(pinned=True)
