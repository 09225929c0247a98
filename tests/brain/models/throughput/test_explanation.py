"""Why a speed is predicted, on simulated jobs of which it is known what limits them."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from convoy.brain.models import ThroughputModel
from convoy.brain.models.throughput import Explanation
from convoy.brain.models.throughput.frame import Observations
from convoy.brain.models.throughput.posterior import Posterior, infer
from convoy.brain.models.throughput.wording import PARTS
from convoy.core.api.errors import InvalidInput
from support.limited_jobs import ALL_REDUCE, SERVED, all_reduce_job, jobs, served_job

SEEDS = (0, 1, 2)
TRUTH = ["limit", "computing"]


@cache
def fitted(strategy: str, seed: int) -> ThroughputModel:
    return ThroughputModel(seed).fit(jobs(SERVED if strategy == "ps" else ALL_REDUCE, 3, seed))


@pytest.fixture(scope="module")
def model() -> ThroughputModel:
    return fitted("ps", 0)


@pytest.fixture(scope="module")
def slow_servers() -> pd.DataFrame:
    return served_job("mine", "servers", np.random.default_rng(5))


def asked(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.drop(columns=["throughput", *TRUTH])


def at(rows: pd.DataFrame, *sizes: tuple[int, int]) -> pd.DataFrame:
    """Return the rows of servers and workers."""
    return pd.concat([rows[(rows["ps"] == ps) & (rows["workers"] == workers)] for ps, workers in sizes])


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("strategy", "limit"),
    [("allreduce", "compute"), ("allreduce", "synchronization"), ("ps", "compute"), ("ps", "servers")],
)
def test_what_limits_a_job_is_named(strategy: str, limit: str, seed: int) -> None:
    generator = np.random.default_rng(100 + seed)
    own = (served_job if strategy == "ps" else all_reduce_job)("mine", limit, generator)
    # where the limit is strictest: the largest batch, or all servers; the smallest, or one server
    big = own[own["workers"] == 8].iloc[-1:] if limit == "compute" else own[own["workers"] == 8].iloc[:1]
    small = own[own["workers"] < 8]
    seen = small.iloc[generator.choice(len(small), 4, replace=False)]
    few, some = (fitted(strategy, seed).explain(one, asked(big)).limits for one in (seen.iloc[:1], seen))
    assert some[0].name == limit
    assert some[0].mean > 0.5
    assert some[0].lower <= some[0].mean <= some[0].upper
    spread = {share.name: share.upper - share.lower for share in few}
    assert some[0].upper - some[0].lower < spread[limit]  # with one speed it's less known


def test_shares_of_what_limits_add_up_wherever_they_are_told(
    model: ThroughputModel, slow_servers: pd.DataFrame
) -> None:
    told = model.explain(at(slow_servers, (1, 1), (1, 4)), asked(slow_servers))
    assert told.chosen is not None
    for option in (told.chosen, *told.alternatives):
        assert sum(share.mean for share in option.limits) == pytest.approx(1.0, abs=0.02)
        assert [share.mean for share in option.limits] == sorted((s.mean for s in option.limits), reverse=True)
    assert sum(term.mean for term in told.terms) == pytest.approx(1.0, abs=0.02)


def test_more_servers_take_the_limit_away(model: ThroughputModel, slow_servers: pd.DataFrame) -> None:
    seen = at(slow_servers, (1, 1), (1, 4), (2, 4))
    shares = []
    for size in ((1, 8), (2, 8), (4, 8)):
        told = model.explain(seen, asked(at(slow_servers, size)))
        shares.append(next(share.mean for share in told.limits if share.name == "servers"))
    assert shares == sorted(shares, reverse=True)
    assert shares[0] - shares[2] > 0.02


def test_the_time_of_a_step_is_that_of_the_speed(model: ThroughputModel, slow_servers: pd.DataFrame) -> None:
    told = model.explain(at(slow_servers, (1, 1), (1, 4)), asked(at(slow_servers, (1, 8))))
    assert told.chosen is not None
    assert max(told.compute_seconds, told.exchange_seconds) < told.step_seconds * 1.01
    assert told.compute_seconds + told.exchange_seconds >= told.step_seconds * 0.99
    assert 32 * 8 / told.step_seconds == pytest.approx(told.chosen.mean, rel=0.01)


def test_weights_are_what_moving_an_observation_does(model: ThroughputModel, slow_servers: pd.DataFrame) -> None:
    seen = at(slow_servers, (1, 1), (1, 4), (2, 2), (4, 4), (2, 8)).reset_index(drop=True)
    query = asked(at(slow_servers, (2, 4)))
    told = model.explain(seen, query)
    weights = {(one.configuration["ps"], one.configuration["workers"]): one.weight for one in told.observations}
    assert sum(weights.values()) == pytest.approx(1.0, abs=0.1)
    moved = []
    for row, step in enumerate(np.full(len(seen), 0.05)):
        speeds = []
        for sign in (1, -1):
            other = seen.copy()
            other.loc[row, "throughput"] *= np.exp(sign * step)
            speeds.append(float(np.log(model.predict(other, query)["mean"].iloc[0])))
        moved.append((speeds[0] - speeds[1]) / (2 * step))
    expected = [weights[ps, workers] for ps, workers in zip(seen["ps"], seen["workers"], strict=True)]
    assert moved == pytest.approx(expected, abs=0.1)


def test_leaving_out_agrees_with_weights_and_with_a_prediction_without(
    model: ThroughputModel, slow_servers: pd.DataFrame
) -> None:
    """In a linear model leaving out changes the prediction by the weight times how far the reading was off."""
    seen = at(slow_servers, (1, 1), (1, 2), (1, 4), (2, 2), (4, 4), (2, 8)).reset_index(drop=True)
    seen.loc[2, "throughput"] *= 1.2  # it is off from what the others say
    query = asked(at(slow_servers, (1, 8)))
    now = model.predict(seen, query)["mean"].iloc[0]
    left_out = [one for one in model.explain(seen, query).observations if np.isfinite(one.without)]
    assert len(left_out) == 2
    for one in left_out:
        mine = (seen["ps"] == one.configuration["ps"]) & (seen["workers"] == one.configuration["workers"])
        without = model.predict(seen[~mine], query)["mean"].iloc[0]
        assert one.without == pytest.approx(without / now - 1, abs=0.03)
        said = model.predict(seen[~mine], asked(seen[mine]))["mean"].iloc[0]
        linear = -one.weight * float(np.log(seen.loc[mine, "throughput"].iloc[0] / said))
        assert np.log1p(one.without) == pytest.approx(linear, abs=0.05)


def test_of_many_observations_one_is_left_out_without_inferring_anew(
    monkeypatch: pytest.MonkeyPatch, model: ThroughputModel, slow_servers: pd.DataFrame
) -> None:
    """Drawn anew with the same draws, it says what a prediction without it says, and is quicker."""
    seen = slow_servers[slow_servers["workers"] < 8].drop(columns=TRUTH).reset_index(drop=True)
    seen = pd.concat([seen, seen.assign(batch_size=64.0, throughput=seen["throughput"] * 1.3)], ignore_index=True)
    query = asked(at(slow_servers, (1, 8)))
    now = model.predict(seen, query)["mean"].iloc[0]
    inferred = []

    def counting(observations: Observations, *rest: Any) -> Posterior:
        inferred.append(len(observations))
        return infer(observations, *rest)

    monkeypatch.setattr("convoy.brain.models.throughput.model.infer", counting)
    left_out = [one for one in model.explain(seen, query).observations if np.isfinite(one.without)]
    assert len(left_out) == 2
    assert len(inferred) < 2
    for one in left_out:
        mine = np.all([seen[name] == one.configuration[name] for name in ("ps", "workers", "batch_size")], axis=0)
        without = model.predict(seen[~mine], query)["mean"].iloc[0]
        assert one.without == pytest.approx(without / now - 1, abs=0.02)


def test_an_outlier_is_told_to_count_less(model: ThroughputModel, slow_servers: pd.DataFrame) -> None:
    seen = at(slow_servers, (1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (4, 4)).reset_index(drop=True)
    seen.loc[2, "throughput"] *= 0.3
    told = model.explain(seen, asked(at(slow_servers, (1, 8))))
    least = min(told.observations, key=lambda one: one.trust)
    assert (least.configuration["ps"], least.configuration["workers"]) == (1, 4)
    assert least.trust < 0.5
    assert any("disagrees" in sentence and least.name in sentence for sentence in told.sentences)


def test_jobs_of_the_same_template_are_named_where_they_are_alike() -> None:
    history = jobs(SERVED, 4, 3)
    history["template"] = history["limit"]
    own = served_job("mine", "servers", np.random.default_rng(9)).assign(template="servers")
    told = ThroughputModel().fit(history).explain(at(own, (1, 1), (1, 4)), asked(at(own, (1, 8))))
    first = told.history[0]
    assert (first.scope, first.jobs) == ("template", 4)
    assert first.after > first.before
    assert sum(one.after for one in told.history) == pytest.approx(1.0)
    assert any("the 4 past jobs of the same template" in sentence for sentence in told.sentences)


def test_what_would_change_a_choice_that_everything_speaks_for(
    model: ThroughputModel, slow_servers: pd.DataFrame
) -> None:
    told = model.explain(slow_servers, asked(slow_servers))
    assert told.change is not None
    assert told.chosen is not None
    assert told.chosen.configuration["ps"] == 4
    assert told.change.expected_loss < 0.02
    assert told.change.measure_gain < 0.01
    best, second = sorted(model.predict(slow_servers, asked(slow_servers))["mean"], reverse=True)[:2]
    rival = next(one for one in told.alternatives if one.name == told.change.rival)
    assert told.change.rival_needs == pytest.approx(told.chosen.mean / rival.mean - 1, abs=0.02)
    assert rival.mean == pytest.approx(second, rel=1e-6)
    assert told.chosen.mean == pytest.approx(best, rel=1e-6)


def test_where_it_isnt_known_what_is_fastest_measuring_is_worth_something(
    model: ThroughputModel, slow_servers: pd.DataFrame
) -> None:
    query = asked(at(slow_servers, (1, 8), (4, 2), (2, 4)))
    unsure, sure = (model.explain(seen, query).change for seen in (at(slow_servers, (1, 1)), slow_servers))
    assert unsure is not None
    assert sure is not None
    assert unsure.measure_gain > sure.measure_gain
    assert unsure.expected_loss > sure.expected_loss
    assert unsure.measure in {"8 workers, 1 server", "2 workers, 4 servers", "4 workers, 2 servers"}


def test_a_choice_that_others_outrun_is_told_to_be_slower(model: ThroughputModel, slow_servers: pd.DataFrame) -> None:
    query = asked(at(slow_servers, (1, 1), (4, 8)))
    told = model.explain(slow_servers, query, chosen=0)
    assert told.change is not None
    assert told.change.rival_needs < 0
    assert told.change.rival_faster > 0.95
    assert any("it isn't speed alone" in sentence for sentence in told.sentences)


@pytest.mark.parametrize(
    ("history", "seen", "query", "undefined"),
    [
        ("none", [], [(1, 8)], dict.fromkeys(PARTS, "NothingKnown")),
        ("none", [(1, 1)], [(1, 8)], {"terms": "NoScalingSeen", "history": "NoHistory", "change": "OnlyOption"}),
        ("none", [(1, 1), (1, 4)], [(1, 8), (2, 8)], {"history": "NoHistory"}),
        ("some", [], [(1, 8), (2, 8)], {"observations": "NoObservations"}),
        ("some", [(1, 1)], [(1, 8)], {"change": "OnlyOption"}),
        ("some", [(1, 1)], [(0, 8)], dict.fromkeys(PARTS, "InvalidConfiguration")),
    ],
)
def test_what_cant_be_said_is_undefined_with_its_reason(
    model: ThroughputModel,
    slow_servers: pd.DataFrame,
    history: str,
    seen: list[tuple[int, int]],
    query: list[tuple[int, int]],
    undefined: dict[str, str],
) -> None:
    rows = pd.concat([at(slow_servers, (1, 8)).assign(ps=ps, workers=workers) for ps, workers in query])
    observed = at(slow_servers, *seen) if seen else slow_servers.iloc[:0]
    told = (model if history == "some" else ThroughputModel()).explain(observed, asked(rows))
    assert told.undefined == undefined
    assert bool(told.terms) is ("terms" not in undefined)
    assert bool(told.observations) is ("observations" not in undefined)
    assert (told.change is not None) is ("change" not in undefined)
    for reason in set(undefined.values()):
        assert any(f"[{reason}]" in sentence for sentence in told.sentences)


def test_a_row_that_isnt_there_and_rows_of_two_jobs_are_refused(
    model: ThroughputModel, slow_servers: pd.DataFrame
) -> None:
    query = asked(at(slow_servers, (1, 8), (2, 8)))
    for rows, chosen in ((query, 2), (query, -1), (query.iloc[:0], None), (query.assign(job=["a", "b"]), 0)):
        with pytest.raises(InvalidInput, match="expected one or more rows of one job"):
            model.explain(at(slow_servers, (1, 1)), rows, chosen=chosen)


def test_what_is_asked_again_isnt_inferred_again(
    model: ThroughputModel, slow_servers: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def counted(observations: Observations, *others: Any) -> Posterior:
        calls.append(len(observations))
        return infer(observations, *others)

    monkeypatch.setattr("convoy.brain.models.throughput.model.infer", counted)
    seen, query = at(slow_servers, (1, 1), (1, 2), (2, 8)), asked(slow_servers)
    first = model.predict(seen, query)
    model.explain(seen, query)
    pd.testing.assert_frame_equal(model.predict(seen, query), first)
    assert calls == [3, 2, 2]  # and without each of the two that count most
    faster = seen.assign(throughput=1.01 * seen["throughput"])
    assert (model.predict(faster, query)["mean"] > first["mean"]).all()
    assert calls == [3, 2, 2, 3]


def test_a_document_is_json_and_the_same_each_time(model: ThroughputModel, slow_servers: pd.DataFrame) -> None:
    first, second = (model.explain(at(slow_servers, (1, 1), (2, 4)), asked(slow_servers)) for _ in range(2))
    assert isinstance(first, Explanation)
    text = json.dumps(first.document(), allow_nan=False)
    assert text == json.dumps(second.document(), allow_nan=False)
    assert len(text) < 30_000
    kept = json.loads(text)
    assert kept["sentences"] == first.sentences
    assert {"chosen", "alternatives", "terms", "observations", "history", "change", "undefined"} <= set(kept)


def test_many_observations_and_useless_ones_are_explained_in_short(
    model: ThroughputModel, slow_servers: pd.DataFrame
) -> None:
    many = pd.concat([slow_servers.assign(ps=ps, batch_size=16.0 + ps) for ps in range(1, 13)])
    bad = slow_servers.assign(throughput=[0.0, -1.0, np.nan] * 4)
    told = model.explain(pd.concat([many, bad]), asked(slow_servers))
    assert len(told.observations) == 24
    assert all(np.isnan(one.without) for one in told.observations)
    assert len(json.dumps(told.document(), allow_nan=False)) < 30_000
    nothing = model.explain(bad, asked(slow_servers))
    assert nothing.undefined == {"observations": "NoObservations"}


def test_names_tell_configurations_apart_with_no_more_than_is_needed(
    model: ThroughputModel, slow_servers: pd.DataFrame
) -> None:
    plain = model.explain(at(slow_servers, (1, 1)), asked(at(slow_servers, (1, 8), (2, 1))), chosen=0)
    assert plain.chosen is not None
    assert plain.chosen.name == "8 workers, 1 server"
    rows = pd.concat([at(slow_servers, (1, 8)), at(slow_servers, (1, 8)).assign(batch_size=16.0)])
    both = model.explain(at(slow_servers, (1, 1)), asked(rows), chosen=1)
    assert both.chosen is not None
    assert both.chosen.name == "8 workers, 1 server, batch 16"
