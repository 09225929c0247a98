"""Which of the weighed sizes a running job goes to: the best that passes, else one worth trying, else none."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from convoy.brain.plan import deadline, explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Objective, Option
from convoy.brain.plan.explore import trial_values
from convoy.brain.plan.objective import BETTER, CHANGED, WORDS, best_of, worth
from convoy.brain.plan.options import Array
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.reply import answered


@dataclass(frozen=True)
class Weighed:
    """Options with why they can't be changed to (nothing where they can), and what they are chosen by."""

    judged: list[Option]
    draws: Array
    """(draws, options) of what they are worth by the objective."""
    request: JobRequest
    restart: float
    horizon: float
    prices: Prices

    @property
    def present(self) -> Option:
        """The size that the job has."""
        return next(option for option in self.judged if option.size == self.request.current)

    @property
    def objective(self) -> Objective:
        """What the plan is for."""
        return Objective(self.request.objective)


def choose(weighed: Weighed) -> JobRecommendation:
    """Return the answer."""
    if weighed.objective is Objective.DEADLINE:
        found = deadline.settled(weighed.judged, weighed.present, weighed.request, weighed.restart, weighed.prices)
        if found is not None:
            return found
    passing = [option for option in weighed.judged if not option.verdict]
    if passing:
        return _changed(weighed, best_of(passing, weighed.objective))
    trial = _worth_trying(weighed)
    return _kept(weighed) if trial is None else _explored(weighed, trial)


def _changed(weighed: Weighed, best: Option) -> JobRecommendation:
    objective, most = weighed.objective, worth(best, weighed.objective)
    final = [
        option
        if option.verdict
        else replace(option, verdict=f"{worth(option, objective) / most - 1:+.0%} against the chosen size")
        for option in weighed.judged
    ]
    gained = explain.change(
        weighed.request.current,
        best.size,
        best.gain,
        WORDS[weighed.objective],
        best.paid_back,
        weighed.restart,
        weighed.horizon,
    )
    message = (
        f"{gained}; predicted {explain.interval(best.predicted, best.lower90, best.upper90)}, "
        f"{explain.price(best.price_per_hour, weighed.prices)}"
    )
    return answered(Decision.CHANGE, CHANGED[weighed.objective], message, best, final, "chosen")


def _explored(weighed: Weighed, trial: Option) -> JobRecommendation:
    message = (
        f"exploring {explain.size(trial.size)}, a trial of {explain.duration(weighed.request.trial_seconds)} "
        f"assumed: predicted {explain.interval(trial.predicted, trial.lower90, trial.upper90)} is too uncertain "
        f"to rely on, but with probability {trial.paid_back:.0%} it pays back a restart of "
        f"{explain.duration(weighed.restart)} within "
        f"{explain.duration(weighed.horizon)}; expected {trial.gain:+.0%} {WORDS[weighed.objective]}, "
        f"{explain.price(trial.price_per_hour, weighed.prices)}"
    )
    why = "NoHistoryYet" if trial.basis == "NoHistory" else "Uncertain"
    return answered(Decision.EXPLORE, why, message, trial, weighed.judged, "chosen, to learn")


def _kept(weighed: Weighed) -> JobRecommendation:
    present = weighed.present
    others = [option for option in weighed.judged if option is not present and math.isfinite(option.gain)]
    best = max(others, key=lambda option: option.gain, default=None)
    if best is None or best.gain <= 0:
        reason = "AlreadyBest"
        text = f"no other size within the limits is expected to be {BETTER[weighed.objective]}"
    else:
        text = f"{explain.size(best.size)}: {best.verdict}"
        small = best.gain < guards.MIN_GAIN
        unsure = best.paid_back >= guards.SURE
        reason = "GainTooSmall" if small else "TooUncertain" if unsure else "RestartNotPaidBack"
    if weighed.objective is Objective.DEADLINE:
        text = f"{deadline.told(weighed.request, present)}; {text}"
        reason = "DeadlineOutOfReach" if weighed.request.deadline_seconds > 0 else "DeadlinePassed"
    message = (
        f"keeping {explain.size(present.size)} at "
        f"{explain.interval(present.predicted, present.lower90, present.upper90)}, "
        f"{explain.price(present.price_per_hour, weighed.prices)}: {text}"
    )
    return answered(Decision.KEEP, reason, message, present, weighed.judged, "chosen: present size")


def _worth_trying(weighed: Weighed) -> Option | None:
    """Return the size that never ran whose trial is worth the most, if that is enough; see ``trial_values``."""
    request, draws = weighed.request, weighed.draws
    left = weighed.horizon - weighed.restart - request.trial_seconds
    if not math.isfinite(weighed.restart) or left <= 0:
        return None
    place = weighed.judged.index(weighed.present)
    values = trial_values(draws, place, weighed.horizon, weighed.restart, request.trial_seconds)
    least = guards.MIN_TRIAL_VALUE * weighed.horizon * float(np.mean(draws[:, place]))
    worthy = [
        (float(value), option)
        for value, option in zip(values, weighed.judged, strict=True)
        if option is not weighed.judged[place]
        and math.isfinite(option.gain)
        and option.basis != "Observed"
        and value > least
    ]
    return max(worthy, key=lambda found: found[0])[1] if worthy else None
