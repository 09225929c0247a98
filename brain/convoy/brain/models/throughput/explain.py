"""Why a speed is predicted: what limits it, what counts as evidence, and what would change the answer.

Each part that can't be said is left out and named in ``Explanation.undefined`` with a reason. ``shares`` says what a
share is, ``influence`` what a weight is; ``wording`` turns an explanation into sentences.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.throughput import influence
from convoy.brain.models.throughput.alternatives import Change, change_of
from convoy.brain.models.throughput.channels import COUNT
from convoy.brain.models.throughput.frame import CHANNELS
from convoy.brain.models.throughput.naming import fields_of, names_of
from convoy.brain.models.throughput.physics import Array, Configurations, log_speed, step_of
from convoy.brain.models.throughput.posterior import Posterior
from convoy.brain.models.throughput.prior import NONE
from convoy.brain.models.throughput.shares import GROUPS, TERMS, UNDIVIDED, doubted, grouped, shares_of, told_apart

LEFT_OUT = 2
"""Observations, those of the largest weight, that are left out in turn to see what follows."""

FEW = 32
"""Observations up to which any is left out: of more, no one changes much."""

REWEIGHED = 8
"""Observations from which on one is left out by weighing the draws anew: of fewer, each changes too much."""

ENOUGH = 100.0
"""Draws that the weighed ones must be worth; with fewer, all is inferred anew."""

TOLD = 24
"""Observations that are told of, those of the largest weight."""

MOST = 32
"""Alternatives that are compared, the fastest ones."""

DIVIDED = 8
"""Configurations that are told of, their step divided into terms: the chosen one and the fastest others."""

LEVEL = 0.9
"""Probability of the intervals of shares."""


PARTS = ("prediction", "terms", "observations", "history", "change")
"""Of an explanation, that may be undefined each by itself."""


@dataclass(frozen=True)
class Share:
    """A part of a step's time: one of ``shares.TERMS``, or one of ``shares.GROUPS``."""

    name: str
    words: str
    mean: float
    lower: float
    upper: float
    largest: float = float("nan")
    """Probability that no other group has a larger share; NaN of a term."""


@dataclass(frozen=True)
class Option:
    """One configuration that was weighed."""

    name: str
    configuration: dict[str, float]
    mean: float
    """Samples/s; ``lower`` and ``upper`` as ``predict`` has them."""
    lower: float
    upper: float
    basis: str
    """``predict``'s reason."""
    limits: tuple[Share, ...] = ()
    """Groups of terms, the largest first; empty where undefined."""


@dataclass(frozen=True)
class Evidence:
    """One configuration that ran, and what its measurement does to the prediction."""

    name: str
    configuration: dict[str, float]
    speed: float
    """Samples/s, as measured."""
    weight: float
    """By how many percent the prediction moves if it had been measured one percent faster."""
    trust: float
    """1; less where it disagrees with the others and counts less for that."""
    without: float
    """The prediction if it hadn't been measured, relative to what it is, less 1; NaN where that wasn't worked out."""
    readings: dict[str, float] = field(default_factory=dict)
    """The same weight of what nodes showed beside speed."""


@dataclass(frozen=True)
class Likeness:
    """Past jobs that this one may be like: those that share a label, all, or none of them."""

    scope: str
    """The label; ``everything``, ``none``."""
    jobs: int
    before: float
    """Probability that it is like them, this job's observations not regarded."""
    after: float


@dataclass(frozen=True)
class Explanation:
    """Why the speed at one configuration is predicted to be what it is."""

    chosen: Option | None
    alternatives: tuple[Option, ...] = ()
    """The fastest others."""
    step_seconds: float = float("nan")
    """Of one step there; NaN where undefined."""
    compute_seconds: float = float("nan")
    """In which a worker computes in a step, and ``exchange_seconds`` in which gradients and parameters are on their
    way: more together than ``step_seconds`` by as much as happens at the same time."""
    exchange_seconds: float = float("nan")
    terms: tuple[Share, ...] = ()
    """Parts of a step there, the largest first."""
    correction: float = float("nan")
    """By how much measurements, this job's and others', put the speed above the physics', relative."""
    observations: tuple[Evidence, ...] = ()
    """The largest weight first."""
    history: tuple[Likeness, ...] = ()
    """The likeliest first."""
    change: Change | None = None
    undefined: dict[str, str] = field(default_factory=dict)
    """Of each of ``PARTS`` that can't be said, why not."""

    @property
    def limits(self) -> tuple[Share, ...]:
        """Return the groups of terms of the chosen configuration, the largest first."""
        return self.chosen.limits if self.chosen else ()

    @property
    def sentences(self) -> list[str]:
        """Return the explanation in words."""
        from convoy.brain.models.throughput.wording import sentences

        return sentences(self)

    def document(self) -> dict[str, Any]:
        """Return the explanation as JSON has it, to six figures, the sentences with it; NaN is null."""
        return {**_plain(self), "sentences": self.sentences}


def nothing(reason: str) -> Explanation:
    """Return the explanation of a prediction that there isn't."""
    return Explanation(None, undefined=dict.fromkeys(PARTS, reason))


@dataclass(frozen=True)
class Asked:
    """One job's prediction, to be explained."""

    posterior: Posterior
    configurations: Configurations
    """What was weighed, batches in units of ``batch``."""
    batch: float
    numbers: Array
    """Mean, lower, upper at each, (n, >= 3)."""
    basis: NDArray[np.object_]
    """Reasons, (n,)."""
    chosen: int
    noise: Array
    """Variance of measuring log speed at each, (n,)."""
    history_jobs: int
    without: Callable[[NDArray[np.intp]], Posterior | None]
    """What is believed if only the observations at these places had been made."""


def explain(asked: Asked, seed: int) -> Explanation:
    """Return why the speed at the chosen configuration is predicted to be what it is."""
    looked_at = _looked_at(asked)
    names = names_of(_together(asked, looked_at))
    options = _options(asked, looked_at[:DIVIDED], names)
    undefined = {}
    terms: tuple[Share, ...] = ()
    if _scaling_known(asked):
        shares = shares_of(_theta(asked), asked.configurations.take(looked_at[:DIVIDED]))
        shares = doubted(shares, _misfit_variance(asked.posterior), np.random.default_rng(seed))
        terms = _terms(_theta(asked), shares)
        options = [replace(option, limits=_limits(shares, at)) for at, option in enumerate(options)]
    else:
        undefined["terms"] = "NoScalingSeen"
    evidence = _evidence(asked, names[len(looked_at) :])
    if not evidence:
        undefined["observations"] = "NoObservations"
    if not asked.history_jobs:
        undefined["history"] = "NoHistory"
    change = None
    if len(options) > 1:
        where = asked.configurations.take(looked_at)
        change = change_of(asked.posterior, where, asked.noise[looked_at], names[: len(looked_at)], seed)
    else:
        undefined["change"] = "OnlyOption"
    seconds, correction = _physics(asked)
    if not terms:
        seconds = (seconds[0], float("nan"), float("nan"))  # how it divides isn't known
    return Explanation(
        options[0], tuple(options[1:]), *seconds, terms, correction, evidence, _history(asked), change, undefined
    )


def _looked_at(asked: Asked) -> NDArray[np.intp]:
    """Return the places of the chosen configuration and of the fastest of the others, in this order."""
    order = np.argsort(-asked.numbers[:, 0], kind="stable")
    return np.concatenate([[asked.chosen], order[order != asked.chosen][:MOST]]).astype(np.intp)


def _together(asked: Asked, looked_at: NDArray[np.intp]) -> Configurations:
    """Return the configurations that are named, then those that were seen, in people's units."""
    return (
        asked.configurations.take(looked_at)
        .followed_by(asked.posterior.seen.observations.configurations)
        .relative(1 / asked.batch)
    )


def _options(asked: Asked, looked_at: NDArray[np.intp], names: list[str]) -> list[Option]:
    where = asked.configurations.relative(1 / asked.batch)
    found = []
    for at, row in enumerate(looked_at):
        mean, lower, upper = map(float, asked.numbers[row, :3])
        found.append(Option(names[at], fields_of(where, row), mean, lower, upper, str(asked.basis[row])))
    return found


def _scaling_known(asked: Asked) -> bool:
    """Return whether anything but the physical default says how a step divides into its terms."""
    seen = asked.posterior.seen
    readings = len(seen) - len(seen.observations)
    return asked.history_jobs > 0 or len(seen.observations) > 1 or readings > 0


def _theta(asked: Asked) -> Array:
    return asked.posterior.seen.form.full(asked.posterior.theta)


def _misfit_variance(posterior: Posterior) -> Array:
    """Return by how much the formula is expected to be off for each draw, a variance of log speed, (draws,)."""
    return np.concatenate(
        [np.full(len(part.theta), posterior.misfit.variance(part.scale)) for part in posterior.parts]
    )


def _share(name: str, words: str, values: Array, largest: float = float("nan")) -> Share:
    lower, upper = np.quantile(values, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return Share(name, words, float(values.mean()), float(lower), float(upper), largest)


def _sorted(shares: list[Share]) -> tuple[Share, ...]:
    """Return the shares that are any, the largest first."""
    return tuple(sorted((one for one in shares if one.upper > 1e-3), key=lambda one: -one.mean))


def _terms(theta: Array, shares: dict[str, Array]) -> tuple[Share, ...]:
    found = told_apart(theta, {name: values[:, 0] for name, values in shares.items()})
    return _sorted([_share(name, TERMS.get(name, UNDIVIDED).words, values) for name, values in found.items()])


def _limits(shares: dict[str, Array], place: int) -> tuple[Share, ...]:
    groups = {name: values[:, place] for name, values in grouped(shares).items()}
    largest = np.argmax(list(groups.values()), axis=0)
    return _sorted(
        [
            _share(name, GROUPS[name], values, float(np.mean(largest == at)))
            for at, (name, values) in enumerate(groups.items())
        ]
    )


def _physics(asked: Asked) -> tuple[tuple[float, float, float], float]:
    """Return seconds at the chosen configuration of a step, its compute and its exchange, and the misfit's part."""
    where = asked.configurations.take(np.array([asked.chosen]))
    latent = np.concatenate([one.values[:, 0] for one in asked.posterior.latent(where)])
    correction = float(np.mean(latent - log_speed(_theta(asked), where)[:, 0]))
    step = step_of(_theta(asked), where)
    seconds = float(np.exp(np.mean(step.log_step) - correction))
    if not np.isfinite(where.batch_size[0]):
        seconds = float("nan")  # without a known batch there are no samples to count a step's time by
    compute, exchange = (
        seconds * float(np.mean(part * np.exp(-step.log_step)))
        for part in (step.compute * where.accumulation_steps, step.exchange)
    )
    return (seconds, compute, exchange), float(np.expm1(correction))


def _evidence(asked: Asked, names: list[str]) -> tuple[Evidence, ...]:
    seen = asked.posterior.seen
    count = len(seen.observations)
    if not count:
        return ()
    where = asked.configurations.take(np.array([asked.chosen]))
    weights = influence.weights(asked.posterior, where)[0]
    without = _without(asked, where, weights[:count])
    speeds = np.exp(seen.observations.log_speed + np.log(asked.batch))
    real = seen.observations.configurations.relative(1 / asked.batch)
    found = []
    for at in np.argsort(-np.abs(weights[:count]), kind="stable")[:TOLD]:
        readings = {
            CHANNELS[channel]: float(weights[count + row])
            for channel in range(COUNT)
            for row in np.flatnonzero((seen.channel == channel) & (seen.place == at))
        }
        found.append(
            Evidence(
                names[at],
                fields_of(real, at),
                float(speeds[at]),
                float(weights[at]),
                float(asked.posterior.trust[at]),
                float(without[at]),
                readings,
            )
        )
    return tuple(found)


def _without(asked: Asked, where: Configurations, weights: Array) -> Array:
    """Return what the prediction would be without each of the observations that count most, relative, less 1."""
    found = np.full(len(weights), np.nan)
    if not 2 <= len(weights) <= FEW:
        return found  # without its only observation a job's level is unknown
    now = _mean(asked.posterior, where)
    for at in np.argsort(-np.abs(weights), kind="stable")[:LEFT_OUT]:
        kept = np.delete(np.arange(len(weights)), at)
        if len(weights) >= REWEIGHED:
            then, draws = influence.reweighed(asked.posterior, kept, where)
            if draws >= ENOUGH:
                found[at] = np.expm1(then[0] - now)
                continue
        other = asked.without(kept)
        if other is not None:
            found[at] = np.expm1(_mean(other, where) - now)
    return found


def _mean(posterior: Posterior, where: Configurations) -> float:
    return float(np.mean(np.concatenate([one.values[:, 0] for one in posterior.latent(where)])))


def _history(asked: Asked) -> tuple[Likeness, ...]:
    if not asked.history_jobs:
        return ()
    found = [
        Likeness(one.scope.name, 0 if one.scope.name == NONE else one.scope.jobs, one.before, one.after)
        for one in asked.posterior.scopes
    ]
    return tuple(sorted(found, key=lambda one: -one.after))


def _plain(value: Any) -> Any:
    """Return a value of JSON's types."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if np.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    return value
