"""Models fitted to the store, tested beside their rivals, promoted and served."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from convoy.brain.batch.fit import fit
from convoy.brain.batch.recipes import NO_HISTORY, RECIPES
from convoy.brain.features import frames
from convoy.brain.features.observations import OBSERVATIONS
from convoy.brain.features.schema import schema_of
from convoy.brain.ingest.history import import_history
from convoy.brain.models.registry import Verdict
from convoy.brain.models.registry.kinds import KINDS
from convoy.brain.models.registry.speed_trial import LEAST_SIZES, MOST_JOBS, asked_rows, speed_trial
from convoy.brain.serve.champions import Champions
from convoy.brain.serve.knowledge import Knowledge
from convoy.brain.store.model_files import Registry, Stage
from convoy.core.api.errors import InvalidInput, NotFound
from support.clock import FakeClock
from support.loglinear import LogLinear
from support.simulated_jobs import simulated_history
from support.waiting import until

WEEK = timedelta(days=7)


@pytest.fixture(autouse=True)
def _small_model(monkeypatch):
    """The model itself takes seconds to learn, and isn't what is tested here."""
    kind = replace(KINDS["throughput"], module="support.loglinear", attribute="LogLinear")
    monkeypatch.setitem(KINDS, "throughput", kind)
    monkeypatch.setattr("convoy.brain.serve.knowledge.ThroughputModel", LogLinear)


@pytest.fixture
def clock():
    return FakeClock(datetime.now(UTC).timestamp() + 3600.0)  # after whatever the test imports


@pytest.fixture
def registry(engine, home):
    return Registry(engine, home / "models")


def imported(engine, home, jobs, seed=0, prefix="past", **options):
    frame = simulated_history(jobs, seed, prefix=prefix, **options)
    few = frame[frame["workers"].isin([1, 2, 4, 8]) & frame["batch_size"].isin([16, 64])]
    path = home / f"{prefix}.csv"
    few.assign(template="t").to_csv(path, index=False)
    assert import_history(engine, path).refused.rows == 0


def test_a_model_that_learned_something_becomes_the_first_champion(engine, home, registry, clock):
    imported(engine, home, 12)
    steps = []
    found = fit(engine, registry, "throughput", clock, fresh=WEEK, progress=steps.append)
    assert (found.decision.verdict, found.decision.reason) == (Verdict.PROMOTE, "BetterThanBaseline")
    version = found.version
    assert (version.stage, version.rows, version.jobs) == (Stage.CHAMPION, 96, 12)
    assert version.schema_hash == schema_of(OBSERVATIONS).hash
    assert steps[0] == "reading the store"
    assert "testing it: job 1 of 12" in steps
    assert steps[-1] == "testing the baseline: job 12 of 12"
    contest = registry.read(version).facts.contest
    assert (contest.baseline.of, contest.champion) == (NO_HISTORY, None)
    assert contest.candidate.comparable(contest.baseline)
    assert contest.candidate.ratio(contest.baseline).upper < 1.0


def test_a_model_fitted_again_to_the_same_is_no_better_until_the_champion_is_stale(engine, home, registry, clock):
    imported(engine, home, 12)
    first = fit(engine, registry, "throughput", clock, fresh=WEEK).version
    same = fit(engine, registry, "throughput", clock, fresh=WEEK)
    assert (same.version.stage, same.decision.reason) == (Stage.REFUSED, "NoBetter")
    assert registry.read(same.version).facts.contest.champion.of == first.digest
    clock.advance(8 * 86400.0)
    later = fit(engine, registry, "throughput", clock, fresh=WEEK)
    assert (later.version.stage, later.decision.reason) == (Stage.CHAMPION, "NoWorseAndFresher")


def test_without_promotion_it_stays_a_candidate(engine, home, registry, clock):
    imported(engine, home, 6)
    found = fit(engine, registry, "throughput", clock, fresh=WEEK, promote=False)
    assert (found.version.stage, found.decision) == (Stage.CANDIDATE, None)


def test_too_few_jobs_promote_nothing(engine, home, registry, clock):
    imported(engine, home, 3)
    assert fit(engine, registry, "throughput", clock, fresh=WEEK).decision.reason == "TooFewJobs"


@pytest.mark.parametrize("name", RECIPES)
def test_an_empty_store_gives_no_model_and_says_what_to_do(engine, registry, clock, name):
    with pytest.raises(NotFound, match=r"the store holds nothing to fit it to: .*`convoy brain"):
        fit(engine, registry, name, clock, fresh=WEEK)
    assert registry.versions() == []


def test_a_model_that_isnt_made_of_the_store_is_refused(engine, registry, clock):
    with pytest.raises(InvalidInput, match="expected one of throughput"):
        fit(engine, registry, "weather", clock, fresh=WEEK)


def test_the_champion_is_served_and_gives_the_answers_of_what_was_fitted(engine, home, registry, clock):
    imported(engine, home, 12)
    version = fit(engine, registry, "throughput", clock, fresh=WEEK).version
    knowledge = Knowledge(engine, clock, champions=Champions(registry, WEEK))
    learned = knowledge.learned()
    assert (learned.origin["from"], learned.origin["version"]) == ("champion", version.number)
    assert (learned.rows, learned.model.history_jobs) == (96, 12)
    assert knowledge.learned() is learned
    query = pd.DataFrame({"workers": [1, 2, 4], "batch_size": 32.0, "template": "t"})
    fitted = LogLinear().fit(frames.history(engine))
    expected = fitted.predict(query.iloc[:0], query)
    pd.testing.assert_frame_equal(learned.model.predict(query.iloc[:0], query), expected)


def test_a_stale_champion_gives_way_to_what_the_store_says(engine, home, registry, clock):
    imported(engine, home, 12)
    fit(engine, registry, "throughput", clock, fresh=WEEK)
    clock.advance(8 * 86400.0)
    learned = Knowledge(engine, clock, champions=Champions(registry, WEEK)).learned()
    assert learned.origin["why"] == "ChampionStale"


def test_history_imported_after_the_champion_was_fitted_counts_in_the_next_answer(engine, home, registry):
    imported(engine, home, 6)
    past = FakeClock(datetime.now(UTC).timestamp())
    fit(engine, registry, "throughput", past, fresh=WEEK)
    knowledge = Knowledge(engine, past, champions=Champions(registry, WEEK))
    assert knowledge.learned().origin["from"] == "champion"
    imported(engine, home, 3, seed=1, prefix="more")
    learned = knowledge.learned()
    assert (learned.origin["from"], learned.origin["why"]) == ("store", "HistoryImported")
    assert learned.model.history_jobs == 9


def test_without_a_champion_and_with_a_broken_one_the_store_is_learned_from(engine, home, registry, clock):
    imported(engine, home, 12)
    knowledge = Knowledge(engine, clock, champions=Champions(registry, WEEK))
    assert knowledge.learned().origin["why"] == "NoChampion"
    version = fit(engine, registry, "throughput", clock, fresh=WEEK).version
    (registry.folder.path / version.file).write_bytes(b"\x80\x05.")
    learned = Knowledge(engine, clock, champions=Champions(registry, WEEK)).learned()
    assert learned.origin["why"] == "ChampionUnusable"
    assert learned.model.history_jobs == 12


def test_in_the_place_of_a_broken_champion_the_last_good_one_is_served(engine, home, registry, clock):
    imported(engine, home, 12)
    first = fit(engine, registry, "throughput", clock, fresh=WEEK).version
    clock.advance(86400.0)
    second = fit(engine, registry, "throughput", clock, fresh=timedelta(hours=1)).version
    assert second.stage is Stage.CHAMPION
    (registry.folder.path / second.file).unlink()
    origin = Knowledge(engine, clock, champions=Champions(registry, WEEK)).learned().origin
    assert (origin["from"], origin["version"], len(origin["refused"])) == ("champion", first.number, 1)


def test_a_brain_that_serves_takes_up_a_new_champion_by_itself(engine, home, registry, clock):
    imported(engine, home, 12)
    knowledge = Knowledge(engine, clock, champions=Champions(registry, WEEK))
    before = knowledge.learned()
    fit(engine, registry, "throughput", clock, fresh=WEEK)
    assert knowledge.learned() is before  # an answer doesn't wait
    until(lambda: knowledge.learned().tested, "the champion to be taken up")


def test_only_jobs_with_enough_sizes_are_asked_about_and_not_too_many():
    frame = simulated_history(MOST_JOBS + 5, 0)
    rows = asked_rows(frame)
    assert rows["job"].nunique() == MOST_JOBS
    small = frame[frame["workers"] <= LEAST_SIZES - 1]
    assert asked_rows(small[small["batch_size"] == 8]).empty
    assert asked_rows(frame.iloc[:0]).empty


def test_a_trial_sees_no_answer_and_counts_what_has_none_as_wrong():
    rows = asked_rows(simulated_history(5, 0))

    class Shy:
        def predict(self, observed, query, level=0.9):
            assert not {"throughput", "throughput_sd", "compute_seconds"} & set(query.columns)
            assert len(observed) == 3
            numbers = np.full((len(query), 3), np.nan)
            numbers[0] = 1.0, 0.5, 2.0
            return pd.DataFrame(numbers, index=query.index, columns=["mean", "lower", "upper"])

    test = speed_trial(Shy(), rows, "shy")
    assert len(test.scores) == 5
    assert all(score.error == 1.0 for score in test.scores)
    assert test.coverage().estimate == 0.0
    assert speed_trial(Shy(), rows, "again").scores == test.scores
