"""Training speed from windows, samples a second; windows in which the round was warming up don't count."""

from __future__ import annotations

from collections.abc import Sequence

from convoy.master.decide.draft import Draft
from convoy.master.decide.state import Window

_KEPT = 64


def take_in(draft: Draft, windows: Sequence[Window]) -> tuple[Window, ...]:
    """Append the windows that are new and return them; one that was reported before changes nothing."""
    known = draft.live.windows
    fresh: list[Window] = []
    for window in windows:
        last = (fresh or known)[-1] if (fresh or known) else None
        if window.seconds <= 0 or window.samples < 0:
            continue
        if last is None or (window.round, window.time) > (last.round, last.time):
            fresh.append(window)
    if fresh:
        draft.set_live(windows=(*known, *fresh)[-_KEPT:])
    return tuple(fresh)


def settled(draft: Draft, nodes: int) -> list[Window]:
    """Return the windows after warm-up at that size, oldest first."""
    return [window for window in draft.live.windows if window.nodes == nodes and not window.warming]


def mean(windows: Sequence[Window]) -> float:
    """Return their mean speed, weighted by time; 0 where there are none."""
    seconds = sum(window.seconds for window in windows)
    return sum(window.samples for window in windows) / seconds if seconds else 0.0


def current(draft: Draft) -> float:
    """Return the speed over the last windows of the present round, warming ones only where there are no others."""
    here = [window for window in draft.live.windows if window.round == draft.round.number]
    return mean([window for window in here if not window.warming][-3:] or here[-1:])
