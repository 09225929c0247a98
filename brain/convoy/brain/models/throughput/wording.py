"""An explanation of a predicted speed in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from convoy.brain.models.throughput.alternatives import Change
from convoy.brain.models.throughput.explain import Evidence, Explanation, Likeness, Share
from convoy.brain.models.throughput.prior import EVERYTHING, NONE

SURE = 0.8
"""Probability above which a limit is named without a doubt."""
WORTH_NAMING = 0.1
"""A share, weight or probability below it isn't worth a word beside larger ones."""
SMALL = 0.02
"""Changes of a prediction below it are within what draws scatter."""
MOST_NAMED = 3

BASES = {
    "Observed": "it ran",
    "Interpolated": "within what was observed",
    "Extrapolated": "beyond what was observed",
    "HistoryOnly": "the job wasn't observed; by past jobs alone",
    "NoHistory": "beyond what was observed, and no past job says how such jobs scale",
}

WHY_NOT = {
    "InvalidConfiguration": "this isn't a configuration that could run",
    "StrategyNotModelled": "no model knows such a strategy or mode",
    "NothingKnown": "neither the job nor any past one showed a usable measurement",
    "NoScalingSeen": (
        "one speed alone, without past jobs or the load of its nodes, doesn't say how the time of a step divides"
    ),
    "NoObservations": "the job has shown no usable measurement",
    "NoHistory": "there are no past jobs of this kind",
    "OnlyOption": "nothing else was weighed",
}
"""Reasons of parts that are undefined, in words."""

WEIGHT = "weight: percent by which the prediction moves with one percent there"

PARTS = {
    "prediction": "the speed can't be explained",
    "terms": "what limits it isn't known",
    "observations": "no observation counts",
    "history": "past jobs say nothing",
    "change": "there is nothing to choose from",
}

READINGS = {
    "worker_cpu_used": "cores in use by workers",
    "ps_cpu_used_max": "cores in use by its busiest server",
    "compute_seconds": "seconds of compute",
}


def sentences(explained: Explanation) -> list[str]:
    """Return the explanation in words, one sentence a part; what is undefined with its reason."""
    if explained.chosen is None:
        return [_undefined(explained, "prediction")]
    parts = {
        "terms": list(_limits(explained)),
        "observations": list(_observations(explained.observations)),
        "history": list(_history(explained.history)),
        "change": list(_change(explained.change)),
    }
    found = [_speed(explained)]
    for part, said in parts.items():
        found += [_undefined(explained, part)] if part in explained.undefined else said
    return found


def _undefined(explained: Explanation, part: str) -> str:
    reason = explained.undefined[part]
    return f"{PARTS[part]}{f': {WHY_NOT[reason]}' if reason in WHY_NOT else ''} [{reason}]"


def speed(value: float) -> str:
    """Return samples/s to three figures."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(value: float) -> str:
    """Return a share in percent."""
    return f"{100 * value:.0f} %"


def _speed(explained: Explanation) -> str:
    one = explained.chosen
    assert one is not None
    text = f"{one.name}: {speed(one.mean)} samples/s, {speed(one.lower)} to {speed(one.upper)}"
    return f"{text} ({BASES.get(one.basis, one.basis)})"


def _limits(explained: Explanation) -> Iterator[str]:
    if not explained.limits:
        return
    first, *others = explained.limits
    step = f"of a step of {_seconds(explained.step_seconds)}" if explained.step_seconds > 0 else "of a step"
    limit = f"{first.words}, {percent(first.mean)} {step} ({_interval(first)})"
    if first.largest >= SURE or not others:
        text = f"the limit is {limit}"
    else:
        second = max(others, key=lambda one: one.largest)
        text = f"the limit is probably {limit}, or else {second.words}, {percent(second.mean)} ({_interval(second)})"
        others = [one for one in others if one is not second]
    rest = [f"{one.words} {percent(one.mean)}" for one in others if one.mean >= WORTH_NAMING]
    yield "; ".join([text, *([f"beside it {_listed(rest)}"] if rest else [])])
    named = [one for one in explained.terms if one.mean >= WORTH_NAMING][:MOST_NAMED]
    yield "in particular " + _listed([f"{one.words} {percent(one.mean)} ({_interval(one)})" for one in named])
    both = explained.compute_seconds + explained.exchange_seconds - explained.step_seconds
    if both > WORTH_NAMING * explained.step_seconds:
        yield (
            f"computing takes {_seconds(explained.compute_seconds)} of it and exchange "
            f"{_seconds(explained.exchange_seconds)}, of which {_seconds(both)} at the same time"
        )
    if abs(explained.correction) >= SMALL:
        way = "faster" if explained.correction > 0 else "slower"
        yield f"measurements put it {percent(abs(explained.correction))} {way} than these terms alone"


def _observations(evidence: Sequence[Evidence]) -> Iterator[str]:
    named = [one for one in evidence if abs(one.weight) >= WORTH_NAMING][:MOST_NAMED] or list(evidence[:1])
    if named:
        yield f"what counts most of what ran ({WEIGHT}): " + "; ".join(_one(one) for one in named)
    load: dict[str, float] = {}
    for one in evidence:
        for name, weight in one.readings.items():
            load[name] = load.get(name, 0.0) + abs(weight)
    heard = [f"{READINGS[name]} ({weight:.2f})" for name, weight in load.items() if weight >= WORTH_NAMING]
    if heard:
        yield f"what its nodes showed counts, too: {_listed(heard)}"
    doubted = [one for one in evidence if one.trust < 2 / 3]
    if doubted:
        yield "counts less since it disagrees with the rest: " + _listed([one.name for one in doubted[:MOST_NAMED]])


def _one(one: Evidence) -> str:
    text = f"{one.name}, {speed(one.speed)} samples/s (weight {one.weight:.2f}"
    if math.isnan(one.without):
        return f"{text})"
    if abs(one.without) < SMALL:
        return f"{text}; without it the prediction would be the same)"
    way = "higher" if one.without > 0 else "lower"
    return f"{text}; without it the prediction would be {percent(abs(one.without))} {way})"


def _history(history: Sequence[Likeness]) -> Iterator[str]:
    if history:
        named = [one for one in history if one.after >= WORTH_NAMING][:MOST_NAMED] or history[:1]
        yield "it is taken for a job like " + _listed([f"{_jobs(one)} ({percent(one.after)})" for one in named])


def _jobs(one: Likeness) -> str:
    if one.scope == NONE:
        return "none of the past ones"
    count = f"{one.jobs} past job" + ("" if one.jobs == 1 else "s")
    if one.scope == EVERYTHING:
        return f"any of {count}"
    return f"the {count} of the same {one.scope.replace('_', ' ')}"


def _change(change: Change | None) -> Iterator[str]:
    if change is None:
        return
    if change.rival_needs < -SMALL / 2:
        by = percent(1 / (1 + change.rival_needs) - 1)
        yield (
            f"{change.rival} is predicted to be {by} faster, and is so with probability "
            f"{percent(change.rival_faster)}: it isn't speed alone that speaks for the choice"
        )
    else:
        yield (
            f"{change.rival} would be as fast if it ran {percent(max(change.rival_needs, 0.0))} faster than "
            f"predicted; it is the faster with probability {percent(change.rival_faster)}"
        )
    loss = f"{100 * change.expected_loss:.1f} %"
    if change.measure_gain < SMALL / 10:
        yield f"the choice is expected to lose {loss} of the best speed; no one measurement is expected to change it"
    else:
        gain = f"{100 * change.measure_gain:.1f} %"
        yield (
            f"the choice is expected to lose {loss} of the best speed; "
            f"measuring {change.measure} would tell most, and is expected to be worth {gain}"
        )


def _interval(share: Share) -> str:
    return f"{100 * share.lower:.0f} to {percent(share.upper)}"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{1000 * value:.3g} ms"


def _listed(texts: Sequence[str]) -> str:
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last
