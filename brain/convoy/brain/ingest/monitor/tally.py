"""What was stored and what wasn't, counted for the log, and told once of each object."""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable

from convoy.core.cluster.port import Kind
from convoy.core.process import logs

_REMEMBERED = 2000


class Tally:
    """Counts by kind. Several threads may use it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._counts: Counter[tuple[str, Kind]] = Counter()
        self._said: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._log = logs.get("brain.monitor")

    def stored(self, kinds: Iterable[Kind]) -> None:
        """Count objects that were stored."""
        with self._guard:
            self._counts.update(("stored", kind) for kind in kinds)

    def foreign(self, kind: Kind) -> None:
        """Count what isn't a job's."""
        with self._guard:
            self._counts["foreign", kind] += 1

    def left_out(self, kind: Kind, name: str, why: str) -> None:
        """Count an object that couldn't be stored, and say so."""
        with self._guard:
            self._counts["left_out", kind] += 1
        if self._is_new(f"{kind} {name}", why):
            self._log.warning("left out", kind=str(kind), name=name, why=why)

    def faulty(self, kind: Kind, name: str, faults: tuple[str, ...]) -> None:
        """Count an object of which a part couldn't be stored, and say so."""
        with self._guard:
            self._counts["in_part", kind] += 1
        if self._is_new(f"{kind} {name}", "; ".join(faults)):
            self._log.warning("stored in part", kind=str(kind), name=name, without=list(faults))

    def counts(self, what: str) -> dict[str, int]:
        """Return one count by kind: ``stored``, ``in_part``, ``left_out`` or ``foreign``."""
        with self._guard:
            return {str(kind): count for (which, kind), count in sorted(self._counts.items()) if which == what}

    def _is_new(self, name: str, why: str) -> bool:
        """Whether that wasn't said yet, as far as is remembered."""
        with self._guard:
            new = (name, why) not in self._said
            self._said[name, why] = None
            self._said.move_to_end((name, why))
            if len(self._said) > _REMEMBERED:
                self._said.popitem(last=False)
            return new
