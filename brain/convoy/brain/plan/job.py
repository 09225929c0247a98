"""The plan of one job: keep its size, change it, explore, or say that nothing can be said; with what was weighed.

A change costs a restart: seconds at no speed. It is made when, on joint draws of the speeds, it is paid back within
the horizon with a probability of ``SURE`` and its expected gain passes the hysteresis. Where the speed at a size is
still too uncertain for that, the same draws say whether a trial, assumed to last ``trial_seconds``, is worth
it if the job returns from a disappointment; that is called an exploration.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.plan import explain, guards
from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Option, Stage
from convoy.brain.plan.explore import trial_values
from convoy.brain.plan.prices import Prices

Array = NDArray[np.float64]


class SpeedModel(Protocol):
    """What a plan asks of a throughput model."""

    @property
    def history_jobs(self) -> int:
        """Jobs whose evidence formed the prior."""
        ...

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict mean, lower, upper, latent_sd and reason for each row of ``query``."""
        ...

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        """Return joint draws (draws, rows) of the latent speeds."""
        ...


DRAWS = 1024
UNSURE_SD = 0.3
"""Latent standard deviation of log speed above which a size that never ran is explored rather than changed to."""


def plan_job(
    model: SpeedModel, observed: pd.DataFrame, request: JobRequest, prices: Prices | None = None
) -> JobRecommendation:
    """Recommend the size of one job.

    Args:
        model: predicts and draws speeds.
        observed: the job's own measurements (``ThroughputModel``'s columns); may be empty.
        request: the job and its limits.
        prices: of resources; missing ones leave the price unknown and change no decision.

    Returns:
        The decision; its reason is one of ``NothingFits``, ``NoObservations``, ``NothingKnown``,
        ``StrategyNotPlanned``, ``UnknownObjective`` (UNDEFINED); ``ReplicasGiven``, ``OnlySize``,
        ``ChangedTooOften``, ``AlreadyBest``, ``GainTooSmall``, ``RestartNotPaidBack``, ``TooUncertain`` (KEEP);
        ``MoreSpeed``, ``StartFromHistory``, ``BackWithinLimits`` (CHANGE); ``NoHistoryYet``, ``Uncertain`` (EXPLORE).
        Never a size outside the limits, never zero workers.
    """
    priced = prices or Prices()
    recommendation = _decide(model, observed, request, priced)
    own = observed["job"].eq(request.job).sum() if "job" in observed.columns else len(observed)
    return replace(recommendation, currency=priced.currency, observations=int(own), history_jobs=model.history_jobs)


def _decide(model: SpeedModel, observed: pd.DataFrame, request: JobRequest, prices: Prices) -> JobRecommendation:
    current = request.current_workers
    if request.objective != "throughput":
        message = f"objective '{request.objective}' isn't known: expected 'throughput'"
        return JobRecommendation(Decision.UNDEFINED, "UnknownObjective", message, current)
    if request.strategy not in ("", "allreduce"):
        message = f"sizes of jobs with strategy '{request.strategy}' aren't planned yet: expected 'allreduce'"
        return JobRecommendation(Decision.UNDEFINED, "StrategyNotPlanned", message, current)
    caps = guards.allowed_sizes(request.limits, request.processes_per_worker)
    if not caps.sizes:
        message = (
            f"no size fits: at least {explain.workers(max(1, request.limits.min_workers))} wanted, "
            f"but the limit is {caps.bound}"
        )
        return JobRecommendation(Decision.UNDEFINED, "NothingFits", message, current)
    sizes = list(caps.sizes) if current in caps.sizes or current <= 0 else sorted({*caps.sizes, current})
    own = observed[observed["job"].eq(request.job)] if "job" in observed.columns else observed
    table = _options(model, own, request, sizes, prices)
    if request.stage is Stage.START or current <= 0:
        return _start(model, own, request, table, caps)
    if current not in caps.sizes:
        return _back_within(request, table, caps)
    return _running(model, own, request, table, caps, prices)


def _query(own: pd.DataFrame, request: JobRequest, sizes: list[int]) -> pd.DataFrame:
    processes = np.array(sizes, dtype=float) * request.processes_per_worker
    accumulation = max(1, request.accumulation_steps)
    if request.limits.global_batch > 0:
        batch = request.limits.global_batch / (processes * accumulation)
    else:
        known = own["batch_size"].dropna() if "batch_size" in own.columns else pd.Series(dtype=float)
        last = float(known.iloc[-1]) if len(known) else 1.0
        batch = np.full(len(sizes), request.batch_size if request.batch_size > 0 else last)
    frame = pd.DataFrame(
        {
            "workers": processes,
            "nodes": np.array(sizes, dtype=float),
            "batch_size": batch,
            "accumulation_steps": float(accumulation),
        }
    )
    return frame.assign(job=request.job, strategy=request.strategy, **_surroundings(request))


def _surroundings(request: JobRequest) -> dict[str, str | float]:
    """Return what all rows of a job share."""
    limits = request.limits
    cpu = limits.worker_cpu / request.processes_per_worker if limits.worker_cpu > 0 else 1.0
    shared: dict[str, str | float] = {"worker_cpu": cpu, **request.labels}
    if limits.free_cpu > 0:
        shared["cluster_cpu"] = max(limits.free_cpu, cpu)
    return shared


def _completed(own: pd.DataFrame, request: JobRequest) -> pd.DataFrame:
    """Return the observations with what the request knows better: the surroundings and labels that rows left out."""
    filled = own.copy()
    for name, value in {"job": request.job, "strategy": request.strategy, **_surroundings(request)}.items():
        filled[name] = filled[name].where(filled[name].notna(), value) if name in filled.columns else value
    return filled


def _options(
    model: SpeedModel, own: pd.DataFrame, request: JobRequest, sizes: list[int], prices: Prices
) -> list[Option]:
    query = _query(own, request, sizes)
    observed = _completed(own, request)
    wide = model.predict(observed, query, level=0.99)
    usual = model.predict(observed, query, level=0.9)
    options = []
    for place, size in enumerate(sizes):
        row, outer = usual.iloc[place], wide.iloc[place]
        per_hour = prices.per_hour(size, request.limits.worker_cpu, request.limits.worker_memory)
        options.append(
            Option(
                workers=size,
                predicted=float(row["mean"]),
                lower90=float(row["lower"]),
                upper90=float(row["upper"]),
                lower99=float(outer["lower"]),
                upper99=float(outer["upper"]),
                latent_sd=float(row["latent_sd"]),
                price_per_hour=per_hour,
                price_per_million_samples=prices.per_million_samples(per_hour, float(row["mean"])),
                basis=str(row["reason"]),
            )
        )
    return options


def _answer(
    decision: Decision, reason: str, message: str, chosen: Option, options: list[Option], verdict: str
) -> JobRecommendation:
    weighed = tuple(
        replace(option, verdict=verdict) if option.workers == chosen.workers else option for option in options
    )
    return JobRecommendation(
        decision,
        reason,
        message,
        chosen.workers,
        chosen.predicted,
        chosen.lower90,
        chosen.upper90,
        chosen.lower99,
        chosen.upper99,
        chosen.price_per_hour,
        options=weighed,
    )


def _undefined(request: JobRequest, options: list[Option], reason: str, message: str) -> JobRecommendation:
    weighed = tuple(replace(option, verdict=option.verdict or "undefined") for option in options)
    return JobRecommendation(Decision.UNDEFINED, reason, message, request.current_workers, options=weighed)


def _best(options: list[Option]) -> Option:
    """Return the smallest size whose predicted speed is within ``CLOSE`` of the fastest."""
    fastest = max(option.predicted for option in options)
    return min((o for o in options if o.predicted >= (1 - guards.CLOSE) * fastest), key=lambda o: o.workers)


def _start(
    model: SpeedModel, own: pd.DataFrame, request: JobRequest, options: list[Option], caps: guards.Caps
) -> JobRecommendation:
    if request.current_workers > 0:
        chosen = next((o for o in options if o.workers == request.current_workers), options[0])
        if chosen.workers in caps.sizes:
            message = f"starting with {explain.workers(chosen.workers)}, as the job asks"
            return _answer(Decision.KEEP, "ReplicasGiven", message, chosen, options, "chosen: the job asks for it")
        return _back_within(request, options, caps)
    known = [option for option in options if math.isfinite(option.predicted)]
    if not known or not model.history_jobs:
        return _undefined(
            request, options, "NothingKnown", "no history says how such a job scales: the job starts as it is written"
        )
    best = _best(known)
    judged = [
        replace(
            o, verdict=f"expected {o.predicted / best.predicted - 1:+.0%} against {explain.workers(best.workers)}"
        )
        for o in options
    ]
    interval = explain.interval(best.predicted, best.lower90, best.upper90)
    message = f"starting with {explain.workers(best.workers)}: by {model.history_jobs} past jobs, {interval}"
    return _answer(Decision.CHANGE, "StartFromHistory", message, best, judged, "chosen")


def _back_within(request: JobRequest, options: list[Option], caps: guards.Caps) -> JobRecommendation:
    """Move a job whose present size isn't allowed (any more) to the nearest size that is."""
    nearest = min(caps.sizes, key=lambda size: (abs(size - request.current_workers), size))
    chosen = next(option for option in options if option.workers == nearest)
    message = (
        f"{explain.workers(request.current_workers)} are outside the limits ({caps.sizes[0]} to {caps.sizes[-1]}, "
        f"{caps.bound}): {explain.workers(nearest)} is the nearest size"
    )
    return _answer(Decision.CHANGE, "BackWithinLimits", message, chosen, options, "chosen: nearest within the limits")


def _running(
    model: SpeedModel,
    own: pd.DataFrame,
    request: JobRequest,
    options: list[Option],
    caps: guards.Caps,
    prices: Prices,
) -> JobRecommendation:
    present = next(option for option in options if option.workers == request.current_workers)
    if not math.isfinite(present.predicted):
        return _undefined(request, options, "NothingKnown", f"nothing is known of this job's speed ({present.basis})")
    if present.basis == "HistoryOnly":
        return _undefined(
            request, options, "NoObservations", "the job hasn't been measured yet: a plan waits for its first windows"
        )
    if len(caps.sizes) == 1:
        message = f"{explain.workers(present.workers)} is the only size within the limits ({caps.bound})"
        return _answer(Decision.KEEP, "OnlySize", message, present, options, "chosen: the only size")
    restart = guards.restart_seconds(request.restart_seconds)
    query = _query(own, request, [option.workers for option in options])
    speeds = model.sample(_completed(own, request), query, DRAWS, request.seed)
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
        return _answer(Decision.KEEP, "ChangedTooOften", message, present, weighed, "chosen: changed too often")
    judged = [_judge(option, request, restart) for option in weighed]
    return _choose(judged, speeds, present.workers, request, restart, prices)


def _judge(option: Option, request: JobRequest, restart: float) -> Option:
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


def _choose(
    judged: list[Option], speeds: Array, current: int, request: JobRequest, restart: float, prices: Prices
) -> JobRecommendation:
    present = next(option for option in judged if option.workers == current)
    passing = [option for option in judged if not option.verdict]
    if passing:
        best = _best(passing)
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
        return _answer(Decision.CHANGE, "MoreSpeed", message, best, final, "chosen")
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
        return _answer(Decision.EXPLORE, why, message, trial, judged, "chosen, to learn")
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
    return _answer(Decision.KEEP, reason, message, present, judged, "chosen: present size")


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
