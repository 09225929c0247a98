import numpy as np
import pandas as pd
import pytest

from convoy.brain.models.demand import DemandModel, SeasonalNaive
from convoy.brain.models.demand.series import filled, horizon_hours
from convoy.core.api.errors import InvalidInput
from support.made_demand import BEGIN, demand

MODELS = pytest.mark.parametrize("model", [DemandModel, SeasonalNaive])


def hours(used, begin=BEGIN, **changes):
    times = begin + pd.to_timedelta(np.arange(len(used)), unit="h")
    return pd.DataFrame({"time": times, "resource": "cpu", "used": used} | changes)


@MODELS
@pytest.mark.parametrize(
    ("series", "words"),
    [
        (demand(3).drop(columns="used"), ["no column used", "cluster_hours"]),
        (demand(0), ["no rows"]),
        (pd.DataFrame(), ["no column time, resource, used"]),
        (hours([1.0, -2.0]), ["used is -2.0", "row 1", "0 or more"]),
        (hours([1.0, np.inf]), ["used is inf", "finite"]),
        (hours([1.0, "many"]), ["used is many"]),
        (hours([1.0, 2.0], capacity=-1.0), ["capacity is -1.0"]),
        (hours([1.0, 2.0], time=["2026-03-02", "soon"]), ["time can't be read", "soon"]),
        (hours([1.0, 2.0], time=[BEGIN, pd.Timestamp("2026-03-02")]), ["time can't be read", "zone"]),
        (hours([1.0, 2.0], time=[0, 3600]), ["time can't be read", "0 is a number"]),
        (hours([1.0, 2.0], time=[BEGIN, None]), ["time is missing in 1 rows"]),
        (hours([1.0, 2.0], resource=["cpu", None]), ["resource is missing in row 1"]),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(model, series, words):
    with pytest.raises(InvalidInput) as caught:
        model().fit(series)
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    "horizon", ["", "soon", "-1d", "0h", "500d", 7, 7.5, np.int64(7), np.float32(7), None, object()]
)
def test_a_horizon_is_a_duration(horizon):
    with pytest.raises(InvalidInput, match="horizon is"):
        horizon_hours(horizon)


def test_horizons_and_levels():
    assert [horizon_hours(each) for each in ("7d", "90min", pd.Timedelta(days=1))] == [168, 2, 24]
    model = DemandModel().fit(demand(3))
    for level in (0.0, 1.0, 90, float("nan")):
        with pytest.raises(InvalidInput, match="level is"):
            model.forecast("1d", level)
    with pytest.raises(InvalidInput, match="call fit"):
        DemandModel().forecast()
    with pytest.raises(InvalidInput, match="call fit"):
        DemandModel.restored(DemandModel().state()).forecast()


@MODELS
def test_one_hour_is_a_level_in_an_interval_that_says_so(model):
    frame = model().fit(hours([40.0])).forecast("7d")
    assert (frame["reason"] == "ShortHistory").all()
    assert (frame["mean"] == 40.0).all()
    assert (frame["lower"] == 0.0).all()
    assert (frame["upper"] == 400.0).all()
    known = model().fit(hours([40.0], capacity=64.0)).forecast("7d")
    assert (known["upper"] == 64.0).all()


@MODELS
def test_less_than_two_weeks_falls_back_to_a_level_and_covers_what_comes(model):
    inside = 0.0
    for seed in range(8):
        series = demand(20, seed=seed, weekly=20.0)
        frame = model().fit(series.iloc[: 13 * 24]).forecast("7d")
        assert (frame["reason"] == "ShortHistory").all()
        came = series["used"].to_numpy()[13 * 24 :]
        inside += float(((frame["lower"] <= came) & (came <= frame["upper"])).mean()) / 8
    assert inside > 0.85
    assert (model().fit(demand(14)).forecast("1d")["reason"] == "Forecast").all()


@MODELS
def test_what_never_changed_is_forecast_without_width_and_says_so(model):
    for level in (0.0, 7.0):
        frame = model().fit(hours([level] * 24 * 30)).forecast("7d")
        assert (frame[["mean", "lower", "upper"]] == level).all(axis=None)
        assert (frame["reason"] == "Constant").all()


@MODELS
def test_a_resource_of_which_nothing_is_known_beside_one_that_is(model):
    series = pd.concat([demand(30), hours([np.nan] * 5, resource="memory")])
    frame = model().fit(series).forecast("1d").groupby("resource")
    assert frame["reason"].first().to_dict() == {"accelerators": "Forecast", "memory": "NothingKnown"}
    assert frame["mean"].count().to_dict() == {"accelerators": 24, "memory": 0}
    assert frame["time"].min().nunique() == 1


def test_rows_of_one_hour_are_averaged_in_any_order_and_zone():
    series = demand(30)
    expected = DemandModel().fit(series).forecast("2d")
    half = pd.Timedelta(minutes=30)
    uneven = pd.concat([series.assign(used=series["used"] - 5), series.assign(time=series["time"] + half)])
    uneven.loc[uneven["time"].dt.minute == 30, "used"] += 5
    uneven = uneven.sample(frac=1.0, random_state=1)
    pd.testing.assert_frame_equal(DemandModel().fit(uneven).forecast("2d"), expected)
    elsewhere = series.assign(time=series["time"].dt.tz_convert("Asia/Tokyo"))
    pd.testing.assert_frame_equal(DemandModel().fit(elsewhere).forecast("2d"), expected)
    without = series.assign(time=series["time"].dt.tz_localize(None))
    plain = DemandModel().fit(without).forecast("2d")
    assert plain["time"].dt.tz is None
    pd.testing.assert_frame_equal(plain.assign(time=plain["time"].dt.tz_localize("UTC")), expected)
    texts = series.assign(time=series["time"].dt.strftime("%Y-%m-%dT%H:%M:%SZ"))
    pd.testing.assert_frame_equal(DemandModel().fit(texts).forecast("2d"), expected, check_dtype=False)


def test_gaps_are_bridged_or_taken_from_a_week_before_and_teach_no_error():
    series = demand(56)
    expected = DemandModel().fit(series).forecast("7d")
    holes = series.drop(index=[*range(700, 703), *range(900, 950)])
    holes.loc[1000:1010, "used"] = np.nan
    frame = DemandModel().fit(holes).forecast("7d")
    assert (frame["mean"] / expected["mean"] - 1).abs().max() < 0.05
    values = np.arange(400.0)
    values[[10, 300, 301, *range(350, 360)]] = np.nan
    whole = filled(values)
    assert whole[[10, 300, 301]].tolist() == [10.0, 300.0, 301.0]
    assert whole[350:360].tolist() == list(range(182, 192))
    fitted = DemandModel().fit(holes).learned_[0]
    assert (~fitted.hourly.known).sum() == 3 + 50 + 11
    assert np.isnan(fitted.errors.sizes).sum() > np.isnan(DemandModel().fit(series).learned_[0].errors.sizes).sum()


def test_a_resource_that_was_measured_last_some_time_ago_is_forecast_from_then():
    series = pd.concat([demand(40), demand(38, resource="cpu")])
    frame = DemandModel().fit(series).forecast("7d")
    assert frame.groupby("resource")["time"].min().nunique() == 1
    late = DemandModel().fit(demand(38, resource="cpu")).forecast("9d").iloc[48:].reset_index(drop=True)
    pd.testing.assert_frame_equal(frame[frame["resource"] == "cpu"].reset_index(drop=True), late)


def test_clusters_are_forecast_apart():
    series = pd.concat([demand(30).assign(cluster="east"), demand(30, seed=1).assign(cluster="west")])
    frame = DemandModel().fit(series).forecast("1d")
    assert list(frame.columns) == ["cluster", "time", "resource", "mean", "lower", "upper", "reason"]
    west = DemandModel().fit(demand(30, seed=1)).forecast("1d")["mean"]
    assert frame.loc[frame["cluster"] == "west", "mean"].tolist() == west.tolist()


def test_of_a_long_history_the_latest_half_year_is_read():
    long = hours(np.concatenate([np.full(24 * 400, 5.0), demand(200)["used"]]))
    short = hours(demand(200)["used"].to_numpy()[-26 * 168 :], begin=BEGIN + pd.Timedelta(days=600 - 182))
    pd.testing.assert_frame_equal(DemandModel().fit(long).forecast("7d"), DemandModel().fit(short).forecast("7d"))


def test_moments_are_read_however_precise():
    written = hours([1.0, 2.0, 3.0], time=["2026-03-02", "2026-03-02T01:00:00.5", "2026-03-02 02:00"])
    found = DemandModel().fit(written).forecast("1h")
    assert found["time"].iloc[0] == pd.Timestamp("2026-03-02 03:00")


@MODELS
def test_one_hour_long_after_all_others_is_one_hour(model):
    long_ago = hours([5.0] * 400, begin=BEGIN - pd.Timedelta(days=3000))
    found = model().fit(pd.concat([long_ago, hours([5.0])])).forecast("1d")
    assert set(found["reason"]) == {"ShortHistory"}  # nothing says that it never changes
    assert (found["upper"] > found["mean"]).all()
