"""A container's readings as maxima over windows, and what they tell of the next one.

All is relative to the horizon h: maxima over the last h/24 to 14 h, quantiles, how the maxima of successive horizons
moved. Lengths are logarithms of bytes, so nothing depends on how much memory a container uses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from convoy.brain.models.memory.usage import Array, Container, Flags

SLOTS = 24
"""Equal parts of a horizon; the maximum of each is kept."""
LONGEST = 90
"""Horizons that are looked back: what is older says little about the next."""
WINDOWS = (1 / SLOTS, 0.25, 1.0, 2.0, 3.0, 7.0, 14.0)
"""Horizons over which the recent maximum is taken."""
RECENT, USUAL = 14, 7
"""Horizons whose maxima are compared with each other; those a week ago where the horizon is a day."""
LEAST_SEEN = 0.5
"""Share of the usual number of filled slots that a window needs to be learned from."""
LOWEST = -4.0
"""Logarithm of (what was used / what had been used): less is not told apart."""
KILL_EXCESS = float(np.log(1.5))
"""What a killed container would have used is taken as half as much again as its limit, where a number is needed."""
FEATURES = 31


@dataclass(frozen=True)
class Slots:
    """Maxima of equal parts of a horizon, the last of which ends with the last reading."""

    used: Array
    """Logarithm of bytes (slots,); NaN where nothing was read."""
    killed: Flags
    """Whether a kill is its maximum (slots,)."""

    def __len__(self) -> int:
        return len(self.used)


@dataclass(frozen=True)
class Past:
    """What is known at one moment, of what comes after it."""

    anchor: float
    """Second largest of the recent horizons' maxima: what is learned is told as a ratio to it (logarithm)."""
    largest: float
    """Logarithm of the most ever used."""
    killed: bool
    """The container was killed at ``largest``."""
    age: float
    """Horizons since the first reading."""
    features: Array


@dataclass(frozen=True)
class Examples:
    """Moments of containers' pasts with what they used in the horizon after, rows of one container together."""

    container: Array
    """Number of the container (n,)."""
    origin: NDArray[np.intp]
    """Number of its slots before the moment (n,)."""
    anchor: Array
    largest: Array
    features: Array
    """(n, FEATURES)."""
    needed: Array
    """Logarithm of the most used in the horizon after (n,); ``NOTHING`` where that was nothing."""
    killed: Flags
    """It ended with a kill: at least ``needed`` was wanted (n,)."""

    def __len__(self) -> int:
        return len(self.needed)

    def take(self, rows: Array | Flags) -> Examples:
        """Return some of the rows."""
        return Examples(
            self.container[rows],
            self.origin[rows],
            self.anchor[rows],
            self.largest[rows],
            self.features[rows],
            self.needed[rows],
            self.killed[rows],
        )

    @property
    def containers(self) -> int:
        """How many containers the rows come from."""
        return len(np.unique(self.container))


def slots_of(container: Container, horizon: float) -> Slots:
    """Return the last ``LONGEST`` horizons of a container in slots; none where it has no reading."""
    if not len(container.times):
        return Slots(np.zeros(0), np.zeros(0, dtype=np.bool_))
    back = (container.times[-1] - container.times) * (SLOTS / horizon)
    kept = back < LONGEST * SLOTS
    # a reading on the edge of two slots belongs to the later
    place = np.floor(back[kept] + 1e-9).astype(np.intp)
    place = place[0] - place
    used = np.full(int(place[-1]) + 1, np.nan)
    np.fmax.at(used, place, container.used[kept])
    killed = np.zeros(len(used), dtype=np.bool_)
    at_top = container.killed[kept] & (container.used[kept] >= used[place])
    killed[place[at_top]] = True
    return Slots(used, killed)


def past_of(slots: Slots, until: int) -> Past | None:
    """Return what the slots before ``until`` tell; None where nothing was used in them."""
    used, killed = slots.used[:until], slots.killed[:until]
    known = used[np.isfinite(used)]
    if not len(known):
        return None
    largest = float(known.max())
    age = len(used) / SLOTS
    maxima = _horizon_maxima(used, largest)
    anchor = float(np.sort(maxima)[-2 if len(maxima) > 1 else -1])
    levels = [known[-1], *_recent_maxima(used, float(known[-1]))]
    levels += [*_quantiles(used, 1, (0.5, 0.9), known), *_quantiles(used, 7, (0.5, 0.9, 0.99), known)]
    ordered = np.sort(maxima)[::-1]
    levels += [maxima.mean(), np.median(maxima), *(ordered[min(rank, len(maxima) - 1)] for rank in (0, 2, 3))]
    levels += [maxima[-USUAL] if len(maxima) >= USUAL else anchor, largest]
    features = np.concatenate([np.asarray(levels) - anchor, _movement(maxima), [np.log(age), 1.0 / (1.0 + age)]])
    was_killed = bool(np.any(killed & (used >= largest)))
    return Past(anchor, largest, was_killed, age, features)


def examples_of(containers: Iterable[Slots], most: int, young: bool) -> Examples:
    """Return what was used in past horizons beside what was known before each.

    Args:
        containers: of all that are learned from; their place in the order is their number.
        most: examples of one container.
        young: moments within the first horizon of a container, instead of those after it.
    """
    rows: list[tuple[int, Past, float, bool, int]] = []
    for number, slots in enumerate(containers):
        usual = _usually_filled(slots)
        for origin in _origins(slots, most, young):
            after = slots.used[origin : origin + SLOTS]
            filled = ~np.isnan(after)
            past = past_of(slots, origin)
            if past is None or filled.sum() < LEAST_SEEN * usual:
                continue
            needed = float(after[filled].max())
            top = slots.killed[origin : origin + SLOTS] & (after >= needed)
            rows.append((number, past, needed, bool(top.any()), origin))
    return Examples(
        container=np.array([row[0] for row in rows], dtype=np.float64),
        origin=np.array([row[4] for row in rows], dtype=np.intp),
        anchor=np.array([row[1].anchor for row in rows]),
        largest=np.array([row[1].largest for row in rows]),
        features=np.array([row[1].features for row in rows]).reshape(len(rows), FEATURES),
        needed=np.array([row[2] for row in rows]),
        killed=np.array([row[3] for row in rows], dtype=np.bool_),
    )


def _origins(slots: Slots, most: int, young: bool) -> list[int]:
    if young:
        first = [origin for origin in (1, SLOTS // 4) if origin + SLOTS <= len(slots)]
        return first[:most]
    found = list(range(len(slots) - SLOTS, SLOTS - 1, -SLOTS))[::-1]
    if len(found) <= most:
        return found
    return [found[place] for place in np.linspace(0, len(found) - 1, most).astype(int)]


def _usually_filled(slots: Slots) -> float:
    """Return the median number of filled slots of a horizon, of those that have any."""
    count = len(slots) // SLOTS
    if not count:
        return 1.0
    filled = (~np.isnan(slots.used[len(slots) - count * SLOTS :])).reshape(count, SLOTS).sum(axis=1)
    return float(np.median(filled[filled > 0])) if filled.any() else 1.0


def _horizon_maxima(used: Array, largest: float) -> Array:
    """Return the maxima of the last ``RECENT`` whole horizons in which anything was used, oldest first."""
    count = min(len(used) // SLOTS, RECENT)
    parts = used[len(used) - count * SLOTS :].reshape(count, SLOTS)
    found = np.where(np.isfinite(parts), parts, -np.inf).max(axis=1, initial=-np.inf)
    found = found[np.isfinite(found)]
    return found if len(found) else np.array([largest])


def _recent_maxima(used: Array, last: float) -> list[float]:
    """Return the maximum over each of ``WINDOWS``; one in which nothing was used has that of the next shorter."""
    found, at = [], last
    for window in WINDOWS:
        part = used[max(0, len(used) - max(1, round(window * SLOTS))) :]
        part = part[np.isfinite(part)]
        at = float(part.max()) if len(part) else at
        found.append(at)
    return found


def _quantiles(used: Array, horizons: int, shares: tuple[float, ...], otherwise: Array) -> Array:
    part = used[max(0, len(used) - horizons * SLOTS) :]
    part = part[np.isfinite(part)]
    return np.asarray(np.quantile(part if len(part) else otherwise[-1:], shares), dtype=np.float64)


def _movement(maxima: Array) -> Array:
    """Return how the horizons' maxima moved: spread, steps, and by how much each rose above all before it (9,)."""
    steps = np.diff(maxima)
    if not len(steps):
        return np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0])
    over = maxima[1:] - np.maximum.accumulate(maxima)[:-1]
    since = np.log1p(len(maxima) - 1 - int(np.argmax(maxima)))
    near = float((maxima >= maxima.max() - 0.1).mean())
    return np.array(
        [
            maxima.std(),
            maxima[-USUAL:].std(),
            maxima.max() - np.median(maxima),
            np.abs(steps).mean(),
            steps.max(),
            max(float(over.max()), 0.0),
            np.maximum(over, 0.0).mean(),
            near,
            since,
        ]
    )
