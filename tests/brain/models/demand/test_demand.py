import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.brain.models.backtest.demand import demand_backtest, demand_summary
from convoy.brain.models.demand import DemandModel, SeasonalNaive
from convoy.brain.models.demand.calibration import rolling_errors
from convoy.brain.models.demand.paths import combined, members, seasonal_naive, since_filled, weekly_shape
from convoy.brain.models.state import State
from convoy.core.api.errors import CorruptState
from support.made_demand import BEGIN, demand

MODELS = [DemandModel, SeasonalNaive]


def test_a_forecast_has_a_row_a_resource_and_hour_after_the_last():
    series = pd.concat([demand(), demand(seed=1, resource="cpu")])
    frame = DemandModel().fit(series).forecast("14d")
    assert list(frame.columns) == ["time", "resource", "mean", "lower", "upper", "reason"]
    assert frame.groupby("resource").size().to_dict() == {"accelerators": 336, "cpu": 336}
    first = frame.groupby("resource")["time"].agg(["min", "max"])
    assert (first["min"] == BEGIN + pd.Timedelta(days=56)).all()
    assert (first["max"] == BEGIN + pd.Timedelta(days=70, hours=-1)).all()
    assert (frame["reason"] == "Forecast").all()
    assert ((frame["lower"] >= 0) & (frame["lower"] <= frame["mean"]) & (frame["mean"] <= frame["upper"])).all()


def test_it_errs_less_than_last_week_and_its_intervals_hold_at_many_made_up_clusters():
    scores = [
        demand_backtest(demand(70, seed=seed, weekly=60.0 * (seed % 3)), first="42d", every="14d")
        for seed in range(6)
    ]
    found = pd.concat(scores).groupby(["horizon", "method"])[["mae", "coverage"]].mean()
    for horizon in ("7d", "14d"):
        assert found.loc[(horizon, "demand"), "mae"] < 0.92 * found.loc[(horizon, "seasonal_naive"), "mae"]
        assert 0.85 <= found.loc[(horizon, "demand"), "coverage"] <= 0.97


def test_a_steady_weekly_wave_is_kept_and_noise_is_taken_for_no_wave():
    wave = demand(56, wander=0.0, noise=3.0)["used"].to_numpy()
    ahead = demand(70, wander=0.0, noise=0.0)["used"].to_numpy()[-336:]
    assert np.abs(combined(wave, 336) - ahead).mean() < 3.0
    noise = demand(56, weekly=0.0, wander=0.0)["used"].to_numpy()
    assert np.ptp(weekly_shape(noise)) < 0.2 * np.ptp(noise)


def test_a_growing_cluster_is_followed_no_worse_than_by_last_week():
    grown = demand(70, weekly=0.0, wander=0.0)["used"].to_numpy() + 0.3 * np.arange(1680)
    errors = [np.abs(path(grown[:-336], 336) - grown[-336:]).mean() for path in (combined, seasonal_naive)]
    assert errors[0] <= errors[1]


def test_each_member_stands_for_itself():
    values = demand(40)["used"].to_numpy()
    paths = members(values, 30)
    assert set(paths) == {"seasonal_naive", "last_week", "smoothing", "theta", "reverting"}
    assert (paths["seasonal_naive"] == values[-168:-138]).all()
    middle = np.sort(np.array(list(paths.values())), axis=0)[2]
    assert (combined(values, 30) == middle).all()


def test_the_filling_of_a_cluster_is_no_history_of_its_use():
    steady = demand(56)["used"].to_numpy()
    filling = np.concatenate([np.zeros(20 * 24), np.linspace(0, 100, 5 * 24), steady])
    assert since_filled(steady) == 0
    assert since_filled(filling) == 25 * 24
    assert (combined(filling[since_filled(filling) :], 336) == combined(steady, 336)).all()
    assert since_filled(np.concatenate([np.zeros(80 * 24), steady[: 3 * 24]])) == 0
    late = np.concatenate([np.ones(20 * 24), np.full(20 * 24, 9.0), np.full(20 * 24, 9.0)])
    assert len(late) - since_filled(late) == 40 * 24


def test_errors_are_those_of_forecasts_from_earlier_hours_alone():
    values = np.arange(24.0 * 30)
    seen = []

    def path(history, hours):
        seen.append(len(history))
        return np.full(hours, history[-1])

    known = np.ones(len(values), dtype=bool)
    known[-1] = False
    errors = rolling_errors(values, known, path, 14 * 24)
    assert seen == list(range(14 * 24, 29 * 24 + 1, 24))
    assert errors.span == 16.0
    unit = np.sqrt(values[: 14 * 24].mean())
    assert errors.sizes[0, :3].tolist() == pytest.approx([1 / unit, 2 / unit, 3 / unit])
    assert np.isnan(errors.sizes[-1, 23:]).all()
    assert np.isfinite(errors.sizes[-1, :23]).all()


def test_intervals_widen_with_level_lead_and_shorter_histories():
    model = DemandModel().fit(demand(56, weekly=0.0))
    narrow, wide = model.forecast("14d", 0.5), model.forecast("14d", 0.95)
    assert (wide["upper"] > narrow["upper"]).all()
    width = (narrow["upper"] - narrow["lower"]).to_numpy().reshape(14, 24).mean(axis=1)
    assert (np.diff(width) >= 0).all()
    month = model.forecast("28d", 0.5)
    assert (month["upper"] - month["lower"]).iloc[-1] == pytest.approx(width[-1] * np.sqrt(2))
    short = DemandModel().fit(demand(56, weekly=0.0).iloc[-20 * 24 :]).forecast("14d", 0.5)
    assert (short["upper"] - short["lower"]).mean() > width.mean()


def test_nothing_is_beyond_what_there_is_or_below_nothing():
    series = demand(56, level=50.0, weekly=20.0, wander=8.0)
    series["capacity"] = 100.0
    series.loc[: 54 * 24, "capacity"] = 400.0
    frame = DemandModel().fit(series).forecast("14d")
    assert frame["upper"].max() == 100.0
    assert frame["lower"].min() == 0.0
    series["capacity"] = 1.0  # it counts something else
    assert DemandModel().fit(series).forecast("14d")["upper"].max() > 100.0


@pytest.mark.parametrize("model", MODELS)
def test_a_restored_model_forecasts_bit_for_bit(model):
    series = pd.concat([demand(40), demand(3, resource="cpu"), demand(1, resource="memory").assign(used=np.nan)])
    fitted = model().fit(series)
    state = fitted.state()
    again = model.restored(State(dict(state.document), {name: array.copy() for name, array in state.tensors.items()}))
    pd.testing.assert_frame_equal(fitted.forecast("14d"), again.forecast("14d"), check_exact=True)
    pd.testing.assert_frame_equal(model().fit(series).forecast("9d"), again.forecast("9d"), check_exact=True)
    other = MODELS[1 - MODELS.index(model)]
    with pytest.raises(CorruptState, match="fit it again"):
        other.restored(state)
    with pytest.raises(CorruptState):
        model.restored(State({"kind": model.__name__, "read": state.document["read"], "series": [{}]}))


def test_backtest_scores_each_origin_from_what_was_known_then():
    series = demand(44)
    scores = demand_backtest(series, first="28d", every="2d")
    assert scores.groupby("horizon")["origin"].nunique().to_dict() == {"7d": 5, "14d": 2}
    assert set(scores["hours"]) == {168, 336}
    origin = scores["origin"].min()
    naive = scores[(scores["method"] == "seasonal_naive") & (scores["horizon"] == "7d")].iloc[0]
    used = series["used"].to_numpy()
    error = np.abs(used[28 * 24 : 35 * 24] - used[21 * 24 : 28 * 24]).mean()
    assert naive["origin"] == origin == BEGIN + pd.Timedelta(days=28)
    assert naive["mae"] == pytest.approx(error)
    assert naive["wape"] == pytest.approx(error / used[28 * 24 : 35 * 24].mean())
    changed = series.copy()
    changed.loc[43 * 24 :, "used"] = 0.0  # what comes later changes nothing
    again = demand_backtest(changed, horizons=("7d",), first="28d", every="2d")
    pd.testing.assert_frame_equal(again, scores[scores["horizon"] == "7d"].reset_index(drop=True))
    summary = demand_summary(scores).set_index(["method", "horizon"])
    assert summary.loc[("seasonal_naive", "7d"), "ratio"] == 1.0
    of_model = scores[(scores["method"] == "demand") & (scores["horizon"] == "7d")]
    naives = scores[(scores["method"] == "seasonal_naive") & (scores["horizon"] == "7d")]
    assert summary.loc[("demand", "7d"), "ratio"] == pytest.approx(of_model["mae"].mean() / naives["mae"].mean())
    assert summary.loc[("demand", "7d"), "blocks"] == 2


def test_a_history_too_short_for_an_origin_has_no_scores():
    assert demand_backtest(demand(20)).empty
    assert list(demand_backtest(demand(20)).columns) == list(demand_backtest(demand(44), every="9d").columns)


@settings(max_examples=30, deadline=None)
@given(
    used=st.lists(st.one_of(st.just(np.nan), st.floats(0, 1e15)), min_size=1, max_size=60),
    repeats=st.integers(1, 12),
    hours=st.integers(1, 400),
    level=st.floats(0.01, 0.99),
)
def test_whatever_was_used_numbers_are_finite_and_in_order_or_all_unknown(used, repeats, hours, level):
    values = np.tile(used, repeats)
    times = BEGIN + pd.to_timedelta(np.arange(len(values)), unit="h")
    series = pd.DataFrame({"time": times, "resource": "cpu", "used": values})
    for model in MODELS:
        frame = model().fit(series).forecast(f"{hours}h", level)
        assert len(frame) == hours
        numbers = frame[["lower", "mean", "upper"]].to_numpy()
        if np.isnan(values).all():
            assert np.isnan(numbers).all()
            assert (frame["reason"] == "NothingKnown").all()
        else:
            assert np.isfinite(numbers).all()
            assert (np.diff(numbers, axis=1) >= 0).all()
            assert (numbers >= 0).all()
