"""Limits of memory on made-up containers: the rate that was asked for, kills, fat servers, new containers, nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models.memory import BASELINES, MemoryModel, TunedMargin
from convoy.brain.models.state import State
from convoy.core.api.errors import CorruptState

GIB = 2.0**30
START = pd.Timestamp("2024-01-01", tz="UTC")


def made(
    containers: int, days: int, seed: int, prefix: str = "c", spread: float = 0.2, **labels: Any
) -> pd.DataFrame:
    """Return containers that read every 2 h around a level of their own, with daily peaks of a heavy tail."""
    generator = np.random.default_rng(seed)
    parts = []
    for number in range(containers):
        level = generator.normal(0.0, 1.0)
        daily = np.repeat(generator.exponential(spread, days), 12)
        used = np.exp(level + daily * generator.uniform(0.2, 1.0, days * 12)) * GIB
        times = START + pd.to_timedelta(np.arange(days * 12) * 2, unit="h")
        parts.append(pd.DataFrame({"container": f"{prefix}{number}", "time": times, "used_bytes": used, **labels}))
    return pd.concat(parts, ignore_index=True)


def split_at(usage: pd.DataFrame, days: int) -> tuple[pd.DataFrame, pd.Series[float]]:
    """Return what was before a day, and the most that each container used in it."""
    moment = START + pd.Timedelta(days=days)
    inside = (usage["time"] >= moment) & (usage["time"] < moment + pd.Timedelta(days=1))
    return usage[usage["time"] < moment], usage[inside].groupby("container")["used_bytes"].max()


@pytest.fixture(scope="module")
def fitted() -> MemoryModel:
    return MemoryModel().fit(made(80, 14, seed=1))


def limits_of(frame: pd.DataFrame) -> pd.Series[float]:
    return frame.set_index("container")["limit_bytes"]


@pytest.mark.parametrize("rate", [0.02, 0.1])
def test_containers_never_seen_exceed_at_the_asked_rate(fitted: MemoryModel, rate: float) -> None:
    others = made(250, 13, seed=2, prefix="other")
    over = []
    for day in (9, 12):
        before, needed = split_at(others, day)
        over.append((needed > limits_of(fitted.recommend(before, oom_rate=rate))).mean())
    # four standard errors of 500 independent windows, and as much for the 80 containers learned from
    assert abs(np.mean(over) - rate) < 4 * np.sqrt(rate * (1 - rate) * (1 / 500 + 1 / 1000))


def test_a_lower_rate_asks_for_more(fitted: MemoryModel) -> None:
    before, _ = split_at(made(10, 12, seed=3), 11)
    low, high = (limits_of(fitted.recommend(before, oom_rate=rate)) for rate in (0.01, 0.05))
    assert (low > high).all()


def test_units_of_memory_do_not_matter(fitted: MemoryModel) -> None:
    usage = made(5, 10, seed=4)
    thousandfold = usage.assign(used_bytes=usage["used_bytes"] * 1000)
    one, other = fitted.recommend(usage), fitted.recommend(thousandfold)
    assert np.allclose(other["limit_bytes"], one["limit_bytes"] * 1000)


def test_order_and_repeats_of_rows_do_not_matter(fitted: MemoryModel) -> None:
    usage = made(5, 10, seed=4)
    shuffled = pd.concat([usage, usage.iloc[::7]]).sample(frac=1.0, random_state=0)
    pd.testing.assert_frame_equal(fitted.recommend(usage), fitted.recommend(shuffled))


def test_a_kill_is_a_lower_bound_of_what_was_wanted(fitted: MemoryModel) -> None:
    usage = made(1, 10, seed=5)
    limit = float(usage["used_bytes"].max() * 1.3)
    last = usage["time"].max()
    kill = pd.DataFrame([{"container": "c0", "time": last, "used_bytes": limit, "limit_bytes": limit, "oom": True}])
    killed = fitted.recommend(pd.concat([usage.assign(limit_bytes=limit, oom=False), kill], ignore_index=True))
    calm = fitted.recommend(pd.concat([usage, kill.assign(oom=False)], ignore_index=True))
    assert killed["limit_bytes"].iloc[0] >= 1.5 * limit * (1 - 1e-9)
    assert killed["limit_bytes"].iloc[0] > calm["limit_bytes"].iloc[0]
    assert "Killed" in killed["reason"].iloc[0]


def test_kills_in_the_history_raise_limits() -> None:
    usage = made(60, 12, seed=6).assign(oom=False)
    before, _ = split_at(made(20, 12, seed=7, prefix="x"), 11)
    top = usage.groupby("container")["used_bytes"].transform("max")
    killed = usage.assign(oom=usage["used_bytes"] >= top, limit_bytes=usage["used_bytes"])
    ratio = [
        limits_of(model.recommend(before, oom_rate=0.02))
        for model in (MemoryModel().fit(killed), MemoryModel().fit(usage))
    ]
    assert np.log(ratio[0] / ratio[1]).mean() > 0.1


def test_a_fat_server_does_not_hide_among_thin_ones() -> None:
    parts = []
    for job in range(4):
        for rank in range(4):
            size = 16.0 if rank == 2 else 1.0
            rows = made(1, 6, seed=10 * job + rank, spread=0.05, template="ctr", role="ps", rank=rank)
            rows["used_bytes"] *= size * GIB / rows["used_bytes"].median()
            parts.append(rows.assign(container=f"job{job}/ps-{rank}"))
    history = pd.concat(parts, ignore_index=True)
    model = MemoryModel().fit(history)
    own = limits_of(model.recommend(history))
    largest = history.groupby("container")["used_bytes"].max()
    fat = own.index.str.endswith("ps-2")
    assert (own[fat] > largest[fat] * 0.99).all()
    assert (own[~fat] < 8 * GIB).all()
    ranks = [0, 2, 7, np.nan]
    new = pd.DataFrame({"container": [f"new/{rank}" for rank in ranks], "rank": ranks, "used_bytes": np.nan})
    new = new.assign(template="ctr", role="ps", time=START)
    found = model.recommend(new, oom_rate=0.05).set_index("container")
    assert found["limit_bytes"]["new/0"] < 8 * GIB
    assert found["reason"]["new/0"].startswith("SameRank")
    for name in ("new/2", "new/7", "new/nan"):
        assert found["limit_bytes"][name] > 16 * GIB, found["reason"][name]
    assert found["reason"]["new/7"].startswith("SameTemplate")
    assert "FewContainers" in found["reason"]["new/7"]


def test_new_containers_are_answered_by_what_is_closest() -> None:
    history = pd.concat(
        [
            made(4, 3, seed=1, prefix="a", template="t", role="worker"),
            made(4, 3, seed=2, prefix="b", template="u", role="worker"),
            made(4, 3, seed=3, prefix="d", template="v", role="ps"),
        ]
    )
    model = MemoryModel().fit(history)
    new = pd.DataFrame(
        {
            "container": ["1", "2", "3"],
            "template": ["t", "w", None],
            "role": ["worker", "worker", None],
            "time": START,
            "used_bytes": np.nan,
        }
    )
    found = model.recommend(new)
    assert [reason.split(":")[0] for reason in found["reason"]] == ["SameTemplate", "SameRole", "AnyContainer"]
    peaks = history.groupby("container")["used_bytes"].max()
    assert found["limit_bytes"].iloc[2] > peaks.max()
    assert found["limit_bytes"].iloc[0] > peaks[[f"a{number}" for number in range(4)]].max()


def test_a_young_container_has_what_its_likes_need() -> None:
    history = made(12, 5, seed=1, spread=0.05, template="t", role="worker")
    model = MemoryModel().fit(history.assign(used_bytes=20 * GIB))
    begun = pd.DataFrame(
        {"container": ["n"], "template": ["t"], "role": ["worker"], "time": [START], "used_bytes": [0.1 * GIB]}
    )
    found = model.recommend(begun)
    assert found["limit_bytes"].iloc[0] >= 20 * GIB
    assert found["reason"].iloc[0].startswith("ShortHistory")


def test_a_limit_is_capped_at_the_node(fitted: MemoryModel) -> None:
    usage = made(3, 10, seed=4)
    free = fitted.recommend(usage)
    node = float(free["limit_bytes"].median())
    capped = fitted.recommend(usage, node_bytes=node)
    assert (capped["limit_bytes"] == np.minimum(free["limit_bytes"], node)).all()
    assert list(capped["reason"].str.contains("CappedByNode")) == list(free["limit_bytes"] > node)


def test_few_containers_are_named_and_their_margin_is_wider() -> None:
    before, _ = split_at(made(10, 12, seed=3), 11)
    few, many = (MemoryModel().fit(made(count, 14, seed=1)).recommend(before) for count in (5, 120))
    assert few["reason"].str.contains("FewContainers").all()
    assert not many["reason"].str.contains("FewContainers").any()
    assert np.log(few["limit_bytes"] / many["limit_bytes"]).mean() > 0


def test_nothing_known_is_said() -> None:
    new = pd.DataFrame({"container": ["a"], "time": [START], "used_bytes": [np.nan]})
    for model in (MemoryModel(), MemoryModel().fit(new)):
        found = model.recommend(new)
        assert np.isnan(found["limit_bytes"].iloc[0])
        assert found["reason"].iloc[0].startswith("NothingKnown")


def test_what_was_learned_is_restored_bit_for_bit(fitted: MemoryModel) -> None:
    usage = made(8, 10, seed=4)
    again = MemoryModel.restored(fitted.state())
    for horizon in ("1d", "12h"):
        pd.testing.assert_frame_equal(
            fitted.recommend(usage, horizon=horizon), again.recommend(usage, horizon=horizon), check_exact=True
        )


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(CorruptState, match="fit the model anew"):
        MemoryModel.restored(State({"seed": 0}, {}))


@pytest.mark.parametrize("kind", BASELINES)
def test_rules_answer_alike_after_they_were_restored(kind: type[Any]) -> None:
    rule = kind().fit(made(10, 9, seed=1))
    usage = made(4, 10, seed=4)
    found = rule.recommend(usage, oom_rate=0.05)
    pd.testing.assert_frame_equal(
        found, kind.restored(rule.state()).recommend(usage, oom_rate=0.05), check_exact=True
    )
    assert list(found.columns) == ["container", "limit_bytes", "reason"]
    assert (found["limit_bytes"] > 0).all()


def test_rules_by_hand() -> None:
    days = pd.Series(range(10))
    usage = pd.DataFrame({"container": "c", "role": "worker", "time": START + pd.to_timedelta(days, unit="D")})
    usage["used_bytes"] = (days + 1.0) * GIB
    found = {kind.__name__: kind().fit(usage).recommend(usage)["limit_bytes"].iloc[0] / GIB for kind in BASELINES}
    assert found["AutopilotLike"] == pytest.approx(11.0)
    assert found["KrrRule"] == pytest.approx(11.5)
    assert found["DlroverRule"] == pytest.approx(12.0)
    # the last day's peak holds half of the weight, all below it less than 0.9
    assert found["VpaRule"] == pytest.approx(11.5)
    killed = usage.assign(oom=days == 9, limit_bytes=usage["used_bytes"])
    doubled = BASELINES[3]().recommend(killed)["limit_bytes"].iloc[0] / GIB
    assert doubled == pytest.approx(18.0)


def test_a_tuned_margin_meets_its_rate_on_its_own_containers() -> None:
    usage = made(100, 12, seed=1)
    rule = TunedMargin().fit(usage)
    over = []
    for day in range(1, 12):
        before, needed = split_at(usage, day)
        over.append((needed > limits_of(rule.recommend(before, oom_rate=0.05))).mean())
    assert np.mean(over) == pytest.approx(0.05, abs=0.01)
