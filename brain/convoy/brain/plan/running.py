"""A running job: each size against the present one, on joint draws of their speeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from convoy.brain.plan import explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Objective, Option
from convoy.brain.plan.choose import Weighed, choose
from convoy.brain.plan.deadline import in_time
from convoy.brain.plan.objective import obstacle, worths
from convoy.brain.plan.options import Array, SpeedModel, completed, query
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.reply import answered, undefined
from convoy.brain.plan.sizes import Caps

DRAWS = 1024
UNSURE_SD = 0.3
"""Latent standard deviation of log speed above which a size that never ran is explored rather than changed to."""


@dataclass(frozen=True)
class _Setting:
    """What options are judged in: the objective's request and how long there is to pay a restart back."""

    request: JobRequest
    restart: float
    horizon: float


def running(
    model: SpeedModel,
    own: pd.DataFrame,
    request: JobRequest,
    options: list[Option],
    caps: Caps,
    prices: Prices,
) -> JobRecommendation:
    """Return what a job becomes that runs, its present size within the limits."""
    present = next(option for option in options if option.size == request.current)
    if not math.isfinite(present.predicted):
        return undefined(request, options, "NothingKnown", f"nothing is known of this job's speed ({present.basis})")
    if present.basis == "HistoryOnly":
        return undefined(
            request, options, "NoObservations", "the job hasn't been measured yet: a plan waits for its first windows"
        )
    if (problem := obstacle(request, present)) is not None:
        return undefined(request, options, *problem)
    if len(options) == 1:
        message = f"{explain.size(present.size)} is the only size within the limits ({caps.bound})"
        return answered(Decision.KEEP, "OnlySize", message, present, options, "chosen: the only size")
    speeds = model.sample(
        completed(own, request), query(own, request, [option.size for option in options]), DRAWS, request.seed
    )
    now = speeds[:, options.index(present)]
    setting = _Setting(request, guards.restart_seconds(request.restart_seconds), _horizon(request, float(now.mean())))
    draws = worths(speeds, options, request.objective)
    compared = _compared(options, draws, present, setting)
    if request.objective == Objective.DEADLINE:
        compared = in_time(compared, speeds, present, request, setting.restart)
    judged = [_judged(option, setting) for option in compared]
    return choose(Weighed(judged, draws, request, setting.restart, setting.horizon, prices))


def _horizon(request: JobRequest, speed: float) -> float:
    """Return how long a change has to pay: no longer than the job goes on as it is, where that is known."""
    if request.objective == Objective.DEADLINE and request.deadline_seconds > 0:
        return min(request.deadline_seconds, request.remaining_samples / speed)
    left = request.remaining_samples / speed
    return request.horizon_seconds if math.isnan(left) else min(request.horizon_seconds, max(left, 0.0))


def _compared(options: Sequence[Option], draws: Array, present: Option, setting: _Setting) -> list[Option]:
    """Return the options with their gains over the present size, and how surely a restart is paid back."""
    now = draws[:, list(options).index(present)]
    productive = max(setting.horizon - setting.restart, 0.0)
    compared = []
    for place, option in enumerate(options):
        theirs = draws[:, place]
        if option is present or not np.isfinite(theirs).all():
            compared.append(replace(option, verdict="present size" if option is present else "undefined"))
            continue
        gain = float(np.mean(theirs) / np.mean(now) - 1.0)
        paid = float(np.mean(productive * theirs > setting.horizon * now)) if math.isfinite(setting.restart) else 0.0
        compared.append(replace(option, gain=gain, paid_back=paid))
    return compared


def _judged(option: Option, setting: _Setting) -> Option:
    """Return the option with why it can't be changed to, or an empty verdict where it can."""
    if option.verdict:
        return option
    if option.gain < guards.MIN_GAIN:
        text = f"gain {option.gain:+.0%} is below {guards.MIN_GAIN:.0%}"
    elif option.basis == "NoHistory" and math.isfinite(setting.restart):
        text = "never ran, and no history says how such jobs scale"
    elif option.paid_back < guards.SURE:
        text = (
            f"restart of {explain.duration(setting.restart)} paid back within {explain.duration(setting.horizon)} "
            f"with probability {option.paid_back:.0%} only"
        )
    elif option.latent_sd > UNSURE_SD and option.basis == "Extrapolated":
        text = f"speed known to a factor of {math.exp(1.645 * option.latent_sd):.2g} only"
    else:
        text = ""
    return replace(option, verdict=text)
