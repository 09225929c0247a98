"""Champion and candidate: what is promoted, and that noise isn't."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convoy.brain.models.registry import BackTest, Contest, JobScore, Verdict, decide, decide_first
from convoy.brain.models.registry.promotion import MIN_GAIN, MIN_JOBS
from convoy.core.api.errors import CorruptState, InvalidInput


def back_test(errors, of="candidate", covered=9, width=0.5, rows_digest="rows", level=0.9):
    scores = tuple(JobScore(f"job-{place}", 10, error, covered, width) for place, error in enumerate(errors))
    return BackTest(of, "three sizes shown", level, rows_digest, scores)


ERRORS = st.lists(st.floats(0.0, 10.0), min_size=MIN_JOBS, max_size=30)
SCORES = st.integers(1, 200).flatmap(
    lambda rows: st.tuples(
        st.just(rows),
        st.floats(0.0, 10.0),
        st.none() | st.integers(0, rows),
        st.none() | st.floats(0.0, 20.0),
    )
)


@st.composite
def pairs(draw):
    """Draw two back-tests of the same rows."""
    scores = draw(st.lists(SCORES, min_size=0, max_size=25))
    errors = draw(st.lists(st.floats(0.0, 10.0), min_size=len(scores), max_size=len(scores)))
    covered = [None if c is None else draw(st.integers(0, rows)) for rows, _, c, _ in scores]
    ours = [JobScore(f"job-{i}", *score) for i, score in enumerate(scores)]
    theirs = [
        JobScore(f"job-{i}", s[0], e, c, s[3])
        for i, (s, e, c) in enumerate(zip(scores, errors, covered, strict=True))
    ]
    return tuple(BackTest(of, "p", 0.9, "rows", tuple(s)) for of, s in (("candidate", ours), ("champion", theirs)))


@given(pairs())
@settings(max_examples=150, deadline=None)
def test_two_models_never_take_turns_on_the_same_rows(pair):
    one, other = pair
    assert [decide(other, one).verdict, decide(one, other).verdict] != [Verdict.PROMOTE, Verdict.PROMOTE]


@given(pairs(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_whatever_is_promoted_is_better_than_noise_or_follows_a_stale_one_and_holds_as_much(pair, stale):
    candidate, champion = pair
    found = decide(champion, candidate, champion_is_stale=stale)
    json.dumps(found.document(), allow_nan=False)
    assert found.reason[0].isupper()
    assert found.reason.isalpha()
    if found.verdict is Verdict.PROMOTE:
        ratio = candidate.ratio(champion)
        assert len(candidate.scores) >= MIN_JOBS
        if found.reason == "Better":
            assert ratio.upper < 1.0
            assert ratio.estimate <= 1.0 - MIN_GAIN
        else:
            assert stale
            assert ratio.upper <= 1.05
        held = candidate.coverage(), champion.coverage()
        assert (held[0] is None) <= (held[1] is None)
        if held[1] is not None:
            assert held[0].estimate >= min(held[1].estimate, 0.9) - 0.02


@given(ERRORS, st.integers(0, 100))
@settings(deadline=None)
def test_a_model_is_never_better_than_itself(errors, seed):
    found = decide(back_test(errors, "champion"), back_test(errors), seed=seed)
    assert (found.verdict, found.reason) == (Verdict.KEEP, "NoBetter")


@given(pairs())
@settings(max_examples=50, deadline=None)
def test_the_same_question_has_the_same_answer_whatever_the_order_of_the_jobs(pair):
    candidate, champion = pair
    again = decide(replace(champion, scores=tuple(reversed(champion.scores))), candidate)
    assert again == decide(champion, candidate)


def test_a_candidate_that_is_better_on_all_jobs_is_promoted_with_its_numbers():
    found = decide(back_test([0.2] * 8, "champion"), back_test([0.1] * 8))
    assert (found.verdict, found.reason) == (Verdict.PROMOTE, "Better")
    assert found.evidence["ratio"]["estimate"] == pytest.approx(0.105 / 0.205)
    assert (found.evidence["jobs"], found.evidence["rows"]) == (8, 80)
    assert "0.51 times (0.51 to 0.51) the champion's" in found.message


def test_better_on_one_job_by_far_is_within_noise():
    champion = back_test([0.2] * 8, "champion")
    found = decide(champion, back_test([0.001] + [0.2] * 7))
    assert (found.verdict, found.reason) == (Verdict.KEEP, "WithinNoise")


def test_a_gain_that_is_sure_and_tiny_is_no_reason_to_change():
    found = decide(back_test([0.2] * 8, "champion"), back_test([0.199] * 8))
    assert (found.verdict, found.reason) == (Verdict.KEEP, "WithinNoise")


def test_noise_alone_seldom_promotes():
    promoted = 0
    for seed in range(200):
        errors = np.exp(np.random.default_rng(seed).normal(-2.0, 0.4, size=(2, 20)))
        promoted += decide(back_test(errors[0], "champion"), back_test(errors[1])).verdict is Verdict.PROMOTE
    assert promoted <= 200 * 0.09  # 5 % by the interval; the rest is the bootstrap's own error with 20 jobs


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"covered": 8}, "LessCoverage"),
        ({"covered": None}, "LessCoverage"),
        ({"width": 2.0}, "WiderIntervals"),
        ({"rows_digest": "others"}, "OtherRows"),
        ({"level": 0.8}, "OtherRows"),
    ],
)
def test_smaller_errors_at_the_cost_of_intervals_or_on_other_rows_dont_count(change, reason):
    found = decide(back_test([0.2] * 8, "champion"), back_test([0.1] * 8, **change))
    assert (found.verdict, found.reason) == (Verdict.KEEP, reason)


def test_intervals_that_held_too_little_may_be_widened():
    champion = back_test([0.2] * 8, "champion", covered=6)
    assert decide(champion, back_test([0.1] * 8, covered=9, width=2.0)).verdict is Verdict.PROMOTE


def test_other_jobs_are_other_rows():
    champion, candidate = back_test([0.2] * 8, "champion"), back_test([0.1] * 9)
    assert decide(champion, candidate).reason == "OtherRows"
    with pytest.raises(InvalidInput, match="tested on other rows"):
        candidate.ratio(champion)


def test_a_candidate_without_a_back_test_is_never_promoted():
    for stale in (False, True):
        assert decide(back_test([0.2] * 8), None, champion_is_stale=stale).reason == "NoBackTest"
        assert decide(None, back_test([0.2] * 8), champion_is_stale=stale).reason == "ChampionNotTested"
    assert decide_first(None, back_test([0.2] * 8)).reason == "NoBackTest"
    assert decide_first(back_test([]), back_test([])).reason == "NoBackTest"
    assert decide_first(back_test([0.1] * 8), None).reason == "NoBaseline"
    assert decide_first(back_test([0.1] * 4), back_test([0.9] * 4)).reason == "TooFewJobs"


def test_a_stale_champion_gives_way_to_one_that_is_no_worse():
    champion, candidate = back_test([0.2] * 8, "champion"), back_test([0.201] * 8)
    assert decide(champion, candidate).verdict is Verdict.KEEP
    assert decide(champion, candidate, champion_is_stale=True).reason == "NoWorseAndFresher"
    assert decide(champion, back_test([0.3] * 8), champion_is_stale=True).verdict is Verdict.KEEP


def test_the_first_model_has_to_beat_the_baseline():
    baseline = back_test([0.4] * 8, "no history", covered=10, width=3.0)
    assert decide_first(back_test([0.2] * 8), baseline).reason == "BetterThanBaseline"
    assert decide_first(back_test([0.4] * 8), baseline).reason == "NoBetterThanBaseline"
    assert decide_first(back_test([0.2] * 8, covered=7), baseline).reason == "LessCoverage"
    assert decide_first(back_test([0.2] * 8, covered=None), baseline).reason == "LessCoverage"


@given(pairs())
@settings(max_examples=50, deadline=None)
def test_a_contest_comes_back_from_its_document(pair):
    candidate, champion = pair
    for contest in (Contest(candidate), Contest(candidate, baseline=champion), Contest(candidate, champion=champion)):
        assert Contest.read(json.loads(json.dumps(contest.document(), allow_nan=False))) == contest


@given(pairs())
@settings(max_examples=50, deadline=None)
def test_intervals_hold_their_estimate(pair):
    assume(pair[0].scores)
    for found in (pair[0].error(), pair[0].ratio(pair[1]), pair[0].coverage()):
        assert found is None or found.lower <= found.estimate <= found.upper


@pytest.mark.parametrize(
    "score",
    [
        JobScore("a", 10, float("nan")),
        JobScore("a", 10, -0.1),
        JobScore("a", 0, 0.1),
        JobScore("a", 10, 0.1, 11),
        JobScore("a", 10, 0.1, 9, float("inf")),
    ],
)
def test_scores_that_cannot_be_are_refused(score):
    with pytest.raises(InvalidInput, match="job 'a'"):
        BackTest("candidate", "p", 0.9, "rows", (score,))


def test_a_job_twice_and_a_level_of_one_are_refused():
    score = JobScore("a", 10, 0.1)
    with pytest.raises(InvalidInput, match="twice"):
        BackTest("candidate", "p", 0.9, "rows", (score, score))
    with pytest.raises(InvalidInput, match="level is 1"):
        BackTest("candidate", "p", 1.0, "rows", (score,))


@pytest.mark.parametrize("document", [None, {}, {"candidate": {}}, {"candidate": {"scores": [[1]]}}])
def test_a_document_that_is_no_contest_is_refused(document):
    with pytest.raises(CorruptState):
        Contest.read(document)
