"""Whether a candidate takes the champion's place: only by a back-test on the same rows, paired by job.

A candidate has to be better by more than noise: the bootstrap interval over jobs of the ratio of errors lies below 1
and the ratio itself at least ``MIN_GAIN`` below. So two models of which neither is better don't take turns. It
mustn't buy that with its intervals: they have to hold as much as the champion's do, or as they claim, and may not be
much wider. A champion that has grown stale gives way to one that is no worse.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from convoy.brain.models.registry.backtest import BackTest, Interval

MIN_JOBS = 5
"""Fewer say nothing about jobs in general."""
MIN_GAIN = 0.02
NO_WORSE = 0.05
"""How much larger the errors of a stale champion's successor may be, at the interval's upper end."""
LESS_COVERAGE = 0.02
WIDER = 1.25


class Verdict(StrEnum):
    """What is done with a candidate."""

    PROMOTE = "promote"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Promotion:
    """A decision about a candidate.

    Attributes:
        verdict: promote or keep.
        reason: stable CamelCase.
        message: a sentence, its subject the candidate.
        evidence: the numbers.
    """

    verdict: Verdict
    reason: str
    message: str
    evidence: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {**asdict(self), "verdict": self.verdict.value}


def decide_first(candidate: BackTest | None, baseline: BackTest | None, *, seed: int = 0) -> Promotion:
    """Decide where there is no champion: the candidate has to beat what is used without a model.

    Reasons: ``NoBackTest``, ``TooFewJobs``, ``NoBaseline``, ``OtherRows``, ``NoBetterThanBaseline``,
    ``LessCoverage``; the one that promotes: ``BetterThanBaseline``.
    """
    pair = _paired(candidate, baseline, "NoBaseline", "wasn't tested beside a baseline")
    if isinstance(pair, Promotion):
        return pair
    candidate, baseline = pair
    ratio = candidate.ratio(baseline, seed)
    evidence = _evidence(candidate, baseline, ratio)
    errors = f"its errors are {_words(ratio)} those of {baseline.of}"
    if ratio.upper >= 1.0:
        return _keep("NoBetterThanBaseline", errors, evidence)
    coverage = candidate.coverage()
    if coverage is None and baseline.coverage() is not None:
        return _keep("LessCoverage", f"it gives no intervals, and {baseline.of} does", evidence)
    if coverage is not None and coverage.upper < candidate.level - LESS_COVERAGE:
        return _keep("LessCoverage", _held(coverage, candidate.level), evidence)
    return Promotion(Verdict.PROMOTE, "BetterThanBaseline", f"it is the first one, and {errors}", evidence)


def decide(
    champion: BackTest | None, candidate: BackTest | None, *, champion_is_stale: bool = False, seed: int = 0
) -> Promotion:
    """Decide between a champion and a candidate.

    Reasons: ``NoBackTest``, ``TooFewJobs``, ``ChampionNotTested``, ``OtherRows``, ``NoBetter``, ``WithinNoise``,
    ``LessCoverage``, ``WiderIntervals``; those that promote: ``Better``, ``NoWorseAndFresher``.

    Args:
        champion: its back-test on the candidate's rows; None: it wasn't tested on them.
        candidate: its own; None: it has none.
        champion_is_stale: what the champion was fitted to is so old that one that is no worse will do.
        seed: of the bootstrap.
    """
    pair = _paired(candidate, champion, "ChampionNotTested", "wasn't tested beside the champion, on the same rows")
    if isinstance(pair, Promotion):
        return pair
    candidate, champion = pair
    ratio = candidate.ratio(champion, seed)
    evidence = _evidence(candidate, champion, ratio)
    errors = f"its errors are {_words(ratio)} the champion's"
    better = ratio.upper < 1.0 and ratio.estimate <= 1.0 - MIN_GAIN
    no_worse = ratio.upper <= 1.0 + NO_WORSE
    if not better and not (champion_is_stale and no_worse):
        return _keep("NoBetter" if ratio.estimate >= 1.0 else "WithinNoise", errors, evidence)
    less = _less_coverage(candidate, champion)
    if less:
        return _keep("LessCoverage", less, evidence)
    wider = _wider(candidate, champion)
    if wider:
        return _keep("WiderIntervals", wider, evidence)
    if better:
        return Promotion(Verdict.PROMOTE, "Better", errors, evidence)
    return Promotion(Verdict.PROMOTE, "NoWorseAndFresher", f"the champion is stale, and {errors}", evidence)


def _paired(
    candidate: BackTest | None, rival: BackTest | None, missing: str, why: str
) -> tuple[BackTest, BackTest] | Promotion:
    """Return both, or why they can't be compared."""
    if candidate is None or not candidate.scores:
        return _keep("NoBackTest", "it has no back-test", {})
    jobs = len(candidate.scores)
    evidence = {"jobs": jobs, "rows": candidate.rows}
    if jobs < MIN_JOBS:
        return _keep("TooFewJobs", f"its back-test has {jobs} scores, at least {MIN_JOBS} are needed", evidence)
    if rival is None:
        return _keep(missing, f"it {why}", evidence)
    if not candidate.comparable(rival):
        return _keep("OtherRows", f"it and {rival.of[:12]} were tested on other rows, or otherwise", evidence)
    return candidate, rival


def _less_coverage(candidate: BackTest, champion: BackTest) -> str:
    """Return that the candidate's intervals hold less than the champion's, and than they claim; "" where not."""
    ours, theirs = candidate.coverage(), champion.coverage()
    if theirs is None:
        return ""
    if ours is None:
        return "it gives no intervals, and the champion does"
    wanted = min(theirs.estimate, candidate.level)
    return _held(ours, wanted) if ours.estimate < wanted - LESS_COVERAGE else ""


def _held(coverage: Interval, wanted: float) -> str:
    return (
        f"its intervals hold {coverage.estimate:.0%} of the rows ({coverage.lower:.0%} to {coverage.upper:.0%}), "
        f"wanted: {wanted:.0%}"
    )


def _wider(candidate: BackTest, champion: BackTest) -> str:
    ours, theirs, coverage = candidate.width(), champion.width(), champion.coverage()
    if ours is None or theirs is None or coverage is None or coverage.estimate < champion.level - LESS_COVERAGE:
        return ""  # intervals that hold too little may well be widened
    if ours <= theirs * WIDER:
        return ""
    return f"its intervals span a factor of {ours:.3g}, the champion's {theirs:.3g}, and those hold what they claim"


def _evidence(candidate: BackTest, rival: BackTest, ratio: Interval) -> dict[str, Any]:
    return {
        "against": rival.of,
        "jobs": len(candidate.scores),
        "rows": candidate.rows,
        "ratio": asdict(ratio),
        "error": asdict(candidate.error()),
        "rival_error": asdict(rival.error()),
        "coverage": _coverage(candidate),
        "rival_coverage": _coverage(rival),
        "width": candidate.width(),
        "rival_width": rival.width(),
    }


def _coverage(test: BackTest) -> dict[str, float] | None:
    found = test.coverage()
    return None if found is None else asdict(found)


def _words(ratio: Interval) -> str:
    return f"{ratio.estimate:.2f} times ({ratio.lower:.2f} to {ratio.upper:.2f})"


def _keep(reason: str, message: str, evidence: dict[str, Any]) -> Promotion:
    return Promotion(Verdict.KEEP, reason, message, evidence)
