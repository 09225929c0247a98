"""Frames of memory use that can't be right: an error that names the remedy, or a reason; never a crash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models.memory import BASELINES, MemoryModel
from convoy.core.api.errors import InvalidInput

START = pd.Timestamp("2024-01-01", tz="UTC")
COLUMNS = ["container", "template", "role", "rank", "time", "used_bytes", "limit_bytes", "oom"]


def one(**changes: Any) -> pd.DataFrame:
    row = {"container": "a", "time": START, "used_bytes": 1e9, **changes}
    return pd.DataFrame([row])


@pytest.mark.parametrize("kind", [MemoryModel, *BASELINES])
def test_an_empty_frame_has_an_empty_answer(kind: type[Any]) -> None:
    empty = pd.DataFrame({name: pd.Series(dtype=object) for name in COLUMNS})
    found = kind().fit(empty).recommend(empty)
    assert not len(found)
    assert list(found.columns) == ["container", "limit_bytes", "reason"]


@pytest.mark.parametrize("missing", ["container", "time", "used_bytes"])
def test_a_missing_column_is_named(missing: str) -> None:
    with pytest.raises(InvalidInput, match=f"no column {missing}"):
        MemoryModel().fit(one().drop(columns=missing))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"container": None}, "names no container"),
        ({"time": "soon"}, "time can't be read"),
        ({"used_bytes": "much"}, "used_bytes can't be read"),
        ({"limit_bytes": "much"}, "limit_bytes can't be read"),
        ({"oom": "perhaps"}, "oom is 'perhaps'"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        MemoryModel().recommend(one(**changes))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"oom_rate": 0.0}, "oom_rate is 0.0"),
        ({"oom_rate": 1.0}, "oom_rate is 1.0"),
        ({"oom_rate": np.nan}, "oom_rate is nan"),
        ({"oom_rate": "low"}, "oom_rate is 'low'"),
        ({"horizon": "-1d"}, "horizon is '-1d'"),
        ({"horizon": "soon"}, "horizon is 'soon'"),
        ({"horizon": None}, "horizon is None"),
        ({"node_bytes": 0}, "node_bytes is 0"),
        ({"node_bytes": np.nan}, "node_bytes is nan"),
        ({"node_bytes": "8Gi"}, "node_bytes is '8Gi'"),
    ],
)
@pytest.mark.parametrize("kind", [MemoryModel, BASELINES[0]])
def test_an_argument_that_cannot_be_right_is_named(kind: type[Any], arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        kind().recommend(one(), **arguments)


@pytest.mark.parametrize("used", [0.0, -1.0, np.nan, np.inf])
def test_a_use_that_says_nothing_leaves_nothing_known(used: float) -> None:
    found = MemoryModel().recommend(one(used_bytes=used))
    assert np.isnan(found["limit_bytes"].iloc[0])
    assert found["reason"].iloc[0].startswith("NothingKnown")


def test_a_kill_without_a_limit_counts_as_its_use_or_nothing() -> None:
    with_use = MemoryModel().recommend(one(oom=True, limit_bytes=np.nan))
    assert with_use["limit_bytes"].iloc[0] >= 1.5e9 * (1 - 1e-9)
    without = MemoryModel().recommend(one(used_bytes=np.nan, oom=True, limit_bytes=np.nan))
    assert without["reason"].iloc[0].startswith("NothingKnown")


def test_a_single_reading_has_a_limit_and_says_how_little_that_is() -> None:
    found = MemoryModel().fit(one()).recommend(one())
    assert found["limit_bytes"].iloc[0] > 1e9
    assert found["reason"].iloc[0].startswith("ShortHistory")
    assert "FewContainers" in found["reason"].iloc[0]


def test_a_container_of_very_many_readings() -> None:
    generator = np.random.default_rng(0)
    times = START + pd.to_timedelta(np.arange(100_000) * 30, unit="s")
    usage = pd.DataFrame({"container": "a", "time": times, "used_bytes": 1e9 * generator.uniform(0.5, 1.0, 100_000)})
    model = MemoryModel().fit(usage)
    found = model.recommend(usage)
    assert 0.9e9 < found["limit_bytes"].iloc[0] < 5e9
    assert sum(len(tensor) for tensor in model.state().tensors.values()) < 20_000


def test_a_constant_use_is_no_trouble() -> None:
    times = START + pd.to_timedelta(np.arange(240), unit="h")
    usage = pd.concat(
        [pd.DataFrame({"container": str(number), "time": times, "used_bytes": 1e9}) for number in range(40)]
    )
    found = MemoryModel().fit(usage).recommend(usage, oom_rate=0.05)
    assert ((found["limit_bytes"] >= 1e9) & (found["limit_bytes"] < 1.5e9)).all()


numbers = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.integers(-5, 10**12))
rows = st.fixed_dictionaries(
    {
        "container": st.sampled_from(["a", "b", "c"]),
        "template": st.sampled_from(["t", None]),
        "role": st.sampled_from(["ps", "worker", None]),
        "rank": st.sampled_from([0, 1, None]),
        "time": st.integers(0, 10**7),
        "used_bytes": numbers,
        "limit_bytes": numbers,
        "oom": st.sampled_from([True, False, None]),
    }
)


@settings(max_examples=60)
@given(st.lists(rows, min_size=1, max_size=25), st.lists(rows, max_size=25), st.sampled_from([0.001, 0.05, 0.5]))
def test_any_rows_have_a_finite_limit_or_nothing_known(
    asked: list[dict[str, Any]], taught: list[dict[str, Any]], rate: float
) -> None:
    usage = pd.DataFrame(asked, columns=COLUMNS).astype({"used_bytes": float, "limit_bytes": float})
    history = pd.DataFrame(taught, columns=COLUMNS).astype({"used_bytes": float, "limit_bytes": float})
    model = MemoryModel(horizons=("1h",)).fit(history)
    found = model.recommend(usage, oom_rate=rate, horizon="1h", node_bytes=1e11)
    assert list(found["container"]) == sorted(usage["container"].unique())
    known = found["limit_bytes"].notna()
    assert (found["limit_bytes"][known] > 0).all()
    assert (found["limit_bytes"][known] <= 1e11).all()
    assert (found["reason"].str.startswith("NothingKnown") == ~known).all()


def test_nothing_at_all_is_an_empty_history() -> None:
    assert not len(MemoryModel().fit(pd.DataFrame()).recommend(pd.DataFrame()))


@pytest.mark.parametrize("number", [np.int64(3600), np.float32(3600)])
def test_numbers_of_numpy_are_seconds(number: Any) -> None:
    usage = pd.DataFrame({"container": "a", "time": np.arange(200) * 60.0, "used_bytes": np.linspace(1e9, 2e9, 200)})
    model = MemoryModel(("1h",)).fit(usage)
    assert model.recommend(usage, horizon=number).equals(model.recommend(usage, horizon="1h"))


@pytest.mark.parametrize("moments", [["1000-01-01", "9999-12-31"], ["2026-01-01", "2026-01-01T00:00:00.5Z"]])
def test_moments_of_any_year_and_precision_are_read(moments: list[str]) -> None:
    usage = pd.concat([one(time=moment) for moment in moments])
    found = MemoryModel().recommend(usage)
    assert found["limit_bytes"].iloc[0] > 1e9


@pytest.mark.filterwarnings("error")
def test_a_history_that_used_nothing_in_between_has_limits() -> None:
    # horizons shorter than the time between readings that tell anything
    generator = np.random.default_rng(0)
    usage = pd.concat(
        pd.DataFrame(
            {
                "container": f"c{number}",
                "time": np.arange(300) * 60.0,
                "used_bytes": np.where(generator.random(300) < 0.6, 0.0, 1e9 * generator.lognormal(0.0, 0.3, 300)),
            }
        )
        for number in range(12)
    )
    for horizon in ("1s", "10s", "2min"):
        found = MemoryModel((horizon,)).fit(usage).recommend(usage, horizon=horizon)
        assert np.isfinite(found["limit_bytes"]).all()
        assert (found["limit_bytes"] > 0).all()
