"""Which of the weighed sizes a running job goes to: the best that passes, else one worth trying, else none."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from convoy.brain.plan import explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Option
from convoy.brain.plan.explore import trial_values
from convoy.brain.plan.options import Array
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.reply import answered, best_of


def choose(
    judged: list[Option], speeds: Array, current: int, request: JobRequest, restart: float, prices: Prices
) -> JobRecommendation:
    """Return the answer, of options that say why they can't be changed to, or nothing where they can."""
    present = next(option for option in judged if option.workers == current)
    passing = [option for option in judged if not option.verdict]
    if passing:
        best = best_of(passing)
        final = [
            option
            if option.verdict
            else replace(option, verdict=f"{option.predicted / best.predicted - 1:+.0%} against the chosen size")
            for option in judged
        ]
        message = (
            f"{explain.change(current, best.workers, best.gain, best.paid_back, restart, request.horizon_seconds)}; "
            f"predicted {explain.interval(best.predicted, best.lower90, best.upper90)}, "
            f"{explain.price(best.price_per_hour, prices)}"
        )
        return answered(Decision.CHANGE, "MoreSpeed", message, best, final, "chosen")
    trial = _worth_trying(judged, speeds, current, request, restart)
    if trial is not None:
        why = "NoHistoryYet" if trial.basis == "NoHistory" else "Uncertain"
        message = (
            f"exploring {explain.workers(trial.workers)}, a trial of {explain.duration(request.trial_seconds)} "
            f"assumed: predicted {explain.interval(trial.predicted, trial.lower90, trial.upper90)} is too uncertain "
            f"to rely on, but with probability {trial.paid_back:.0%} it pays back a restart of "
            f"{explain.duration(restart)} within "
            f"{explain.duration(request.horizon_seconds)}; expected {trial.gain:+.0%}, "
            f"{explain.price(trial.price_per_hour, prices)}"
        )
        return answered(Decision.EXPLORE, why, message, trial, judged, "chosen, to learn")
    others = [option for option in judged if option.workers != current and math.isfinite(option.gain)]
    best_gain = max(others, key=lambda option: option.gain, default=None)
    if best_gain is None or best_gain.gain <= 0:
        reason, text = "AlreadyBest", "no other size within the limits is expected to be faster"
    else:
        text = f"{explain.workers(best_gain.workers)}: {best_gain.verdict}"
        small = best_gain.gain < guards.MIN_GAIN
        unsure = best_gain.paid_back >= guards.SURE
        reason = "GainTooSmall" if small else "TooUncertain" if unsure else "RestartNotPaidBack"
    message = (
        f"keeping {explain.workers(current)} at "
        f"{explain.interval(present.predicted, present.lower90, present.upper90)}, "
        f"{explain.price(present.price_per_hour, prices)}: {text}"
    )
    return answered(Decision.KEEP, reason, message, present, judged, "chosen: present size")


def _worth_trying(
    judged: list[Option], speeds: Array, current: int, request: JobRequest, restart: float
) -> Option | None:
    """Return the size that never ran whose trial is worth the most, if that is enough; see ``trial_values``."""
    left = request.horizon_seconds - restart - request.trial_seconds
    if not math.isfinite(restart) or left <= 0:
        return None
    place = next(i for i, option in enumerate(judged) if option.workers == current)
    values = trial_values(speeds, place, request.horizon_seconds, restart, request.trial_seconds)
    least = guards.MIN_TRIAL_VALUE * request.horizon_seconds * float(np.mean(speeds[:, place]))
    worth = [
        (float(value), option)
        for value, option in zip(values, judged, strict=True)
        if option.workers != current and math.isfinite(option.gain) and option.basis != "Observed" and value > least
    ]
    return max(worth, key=lambda found: found[0])[1] if worth else None
