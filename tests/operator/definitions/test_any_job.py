"""Each field of a job dropped, retyped or exaggerated: an API server refuses it by its path, or it can be read."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from convoy.core.api.errors import InvalidManifest
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from support.asked_server import AskedServer
from support.whole_job import whole_job

pytestmark = pytest.mark.servers

Place = tuple[str | int, ...]
DROPPED = object()
MANY = 300

RETYPED: list[Any] = [None, True, False, 0, 1, 1.5, "", "text", "1", [], ["text"], [[]], {}, {"text": "text"}, [{}]]
EXAGGERATED: list[Any] = [
    *(-1, -(2**63), 2**31, 2**63 - 1, 1e300),
    *(
        "x" * 5_000,
        "\x00",
        "\ud7ff\U0001f6f3",
        "\n",
        " ",
        "-1",
        "1e30",
        "9" * 40,
        "1Ki",
        "0x10",
        "a/b",
        "a=b",
        "./..",
    ),
    *(["text"] * MANY, {f"key-{number}": "text" for number in range(MANY)}, {"": ""}, {"a\x00": 1}),
    *({"cpu": "9e18"}, {"cpu": "10E"}, {"cpu": "1e-30"}, {"memory": "8Ei"}),
]


def places(value: Any, at: Place = ()) -> Iterator[Place]:
    """Yield where each value in a manifest lies."""
    if at:
        yield at
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*at, key))


PLACES = sorted(
    (place for place in places(whole_job()) if place[0] not in ("apiVersion", "kind") and place != ("metadata",)),
    key=str,
)


def changed(place: Place, value: Any) -> Manifest:
    """Return the job with another value at a place."""
    made = copy.deepcopy(whole_job())
    node: Any = made
    for key in place[:-1]:
        node = node[key]
    if value is DROPPED:
        del node[place[-1]]
    else:
        node[place[-1]] = value
    return made


def names(path: str, place: Place) -> bool:
    """Whether a refusal's path is the place, what lies below or above it, or a field beside it."""
    wanted = [str(part) for part in place]
    if place[0] == "metadata" and not path.startswith("metadata"):  # Go's decoder leaves that out
        path = f"metadata.{path}"
    found = [part for part in re.split(r"[.\[\]]+", path) if part]
    differ = (at for at, (one, other) in enumerate(zip(found, wanted, strict=False)) if one != other)
    return next(differ, len(wanted)) >= len(wanted) - 1


def is_beyond_schemas(error: InvalidManifest) -> bool:
    """Whether only our models refuse it: a quantity of 2^63 or more, which no pattern tells."""
    return "what a quantity can hold" in str(error)


def problem(asking: AskedServer, place: Place, value: Any) -> str | None:
    """Return what is wrong about the server's answer to a changed job."""
    try:
        taken = asking.would_take(changed(place, value))
    except InvalidManifest as refused:
        return None if names(refused.path, place) else f"{place}: {value!r:.80} is refused with {refused}"
    try:
        ElasticJob.from_manifest(taken)
    except InvalidManifest as refused:
        return (
            None if is_beyond_schemas(refused) else f"{place}: {value!r:.80} is taken, and can't be read: {refused}"
        )
    return None


values = st.just(DROPPED) | st.sampled_from(RETYPED) | st.sampled_from(EXAGGERATED)
given_any = given(st.sampled_from(PLACES), values | st.text(max_size=70) | st.integers(-(2**63), 2**63 - 1))
quiet = {"deadline": None, "suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]}


@settings(max_examples=250, **quiet)
@given_any
def test_a_job_that_was_tampered_with_is_refused_by_the_field_or_can_be_read(
    asking: AskedServer, place: Place, value: Any
) -> None:
    assert problem(asking, place, value) is None


@pytest.mark.long
def test_every_field_with_every_value(asking: AskedServer) -> None:
    all_values = (DROPPED, *RETYPED, *EXAGGERATED)
    found = [problem(asking, place, value) for place in PLACES for value in all_values]
    assert [one for one in found if one is not None] == []
