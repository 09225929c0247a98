"""A running job: each size against the present one, on joint draws of their speeds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from convoy.brain.plan import explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Option
from convoy.brain.plan.choose import choose
from convoy.brain.plan.options import SpeedModel, completed, query
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.reply import answered, undefined

DRAWS = 1024
UNSURE_SD = 0.3
"""Latent standard deviation of log speed above which a size that never ran is explored rather than changed to."""


def running(
    model: SpeedModel,
    own: pd.DataFrame,
    request: JobRequest,
    options: list[Option],
    caps: guards.Caps,
    prices: Prices,
) -> JobRecommendation:
    """Return what a job becomes that runs, its present size within the limits."""
    present = next(option for option in options if option.workers == request.current_workers)
    if not math.isfinite(present.predicted):
        return undefined(request, options, "NothingKnown", f"nothing is known of this job's speed ({present.basis})")
    if present.basis == "HistoryOnly":
        return undefined(
            request, options, "NoObservations", "the job hasn't been measured yet: a plan waits for its first windows"
        )
    if len(caps.sizes) == 1:
        message = f"{explain.workers(present.workers)} is the only size within the limits ({caps.bound})"
        return answered(Decision.KEEP, "OnlySize", message, present, options, "chosen: the only size")
    restart = guards.restart_seconds(request.restart_seconds)
    asked = query(own, request, [option.workers for option in options])
    speeds = model.sample(completed(own, request), asked, DRAWS, request.seed)
    now = speeds[:, options.index(present)]
    horizon = request.horizon_seconds
    productive = max(horizon - restart, 0.0)
    weighed = []
    for place, option in enumerate(options):
        if option is present or not math.isfinite(option.predicted):
            weighed.append(replace(option, verdict="present size" if option is present else "undefined"))
            continue
        gain = float(np.mean(speeds[:, place]) / np.mean(now) - 1.0)
        paid = float(np.mean(productive * speeds[:, place] > horizon * now)) if math.isfinite(restart) else 0.0
        weighed.append(replace(option, gain=gain, paid_back=paid))
    if guards.too_often(request.changes_last_hour, request.limits):
        message = (
            f"keeping {explain.workers(present.workers)}: {request.changes_last_hour} changes in the last hour, "
            f"{request.limits.changes_per_hour} allowed"
        )
        return answered(Decision.KEEP, "ChangedTooOften", message, present, weighed, "chosen: changed too often")
    judged = [judged_option(option, request, restart) for option in weighed]
    return choose(judged, speeds, present.workers, request, restart, prices)


def judged_option(option: Option, request: JobRequest, restart: float) -> Option:
    """Return the option with why it can't be changed to, or an empty verdict where it can."""
    if option.verdict:
        return option
    if option.gain < guards.MIN_GAIN:
        text = f"gain {option.gain:+.0%} is below {guards.MIN_GAIN:.0%}"
    elif option.basis == "NoHistory" and math.isfinite(restart):
        text = "never ran, and no history says how such jobs scale"
    elif option.paid_back < guards.SURE:
        text = (
            f"restart of {explain.duration(restart)} paid back within {explain.duration(request.horizon_seconds)} "
            f"with probability {option.paid_back:.0%} only"
        )
    elif option.latent_sd > UNSURE_SD and option.basis == "Extrapolated":
        text = f"speed known to a factor of {math.exp(1.645 * option.latent_sd):.2g} only"
    else:
        text = ""
    return replace(option, verdict=text)
