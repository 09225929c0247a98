"""A range of the past, collected once: bounded in what is held, and begun again without harm."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from convoy.brain.ingest.prometheus.collect import Collector, Tally
from convoy.brain.ingest.prometheus.grid import Span
from convoy.brain.ingest.prometheus.outages import Outages
from convoy.core.api.errors import InvalidInput, Unavailable


@dataclass(slots=True)
class Filled:
    """What came of a back-fill.

    Attributes:
        span: that was collected.
        too_old: moments before what the store keeps: they weren't asked for.
        tally: of the rest.
    """

    span: Span
    too_old: int
    tally: Tally = field(default_factory=Tally)


def planned(since: datetime, until: datetime, step: int, due: int, not_before: datetime | None) -> Filled:
    """Return which moments a back-fill collects. Pure.

    Args:
        since, until: the range, both included.
        step: seconds from one row to the next.
        due: the last moment whose samples are in Prometheus, in seconds since the epoch.
        not_before: since when the store keeps rows; None: since ever.

    Raises:
        InvalidInput: the range holds no moment.
    """
    asked = Span.within(since.timestamp(), min(until.timestamp(), due), step)
    if not len(asked):
        raise InvalidInput(
            f"--from {since.isoformat()} --until {until.isoformat()}: no moment lies between them for which "
            f"Prometheus has all samples by now, with a row each {step} s; expected a range of the past",
            reason="EmptyRange",
        )
    if not_before is None or not_before.timestamp() <= asked.first:
        return Filled(asked, 0)
    kept = Span.within(not_before.timestamp(), asked.last, step)
    return Filled(kept, len(asked) - len(kept))


def backfill(
    collector: Collector, filled: Filled, on_chunk: Callable[[int], None], *, patience: float = 300.0
) -> None:
    """Collect what was planned, and wait through outages shorter than ``patience`` seconds.

    Args:
        collector: that asks and stores.
        filled: what is planned; what comes of it is added there.
        on_chunk: is given the number of moments that are done, after each chunk.
        patience: how long Prometheus or the database may be away.

    Raises:
        Unavailable: one was away for longer; the message says from when on to begin again.
        Unusable: one of them refuses us.
    """
    rest, outages, since = filled.span, Outages(), time.monotonic()
    while len(rest):
        try:
            for moment in collector.collect(rest, filled.tally):
                rest = Span(moment + rest.step, rest.last, rest.step)
                outages, since = Outages(), time.monotonic()
                on_chunk(len(filled.span) - len(rest))
            return
        except Unavailable as error:
            outages.failed(error, since)
            if time.monotonic() - since + outages.pause() > patience:
                begun = datetime.fromtimestamp(rest.first, UTC).isoformat()
                raise Unavailable(
                    f"{error} What came before is stored: go on with --from {begun}", reason=error.reason
                ) from error
            time.sleep(outages.pause())
