"""Follows one kind of objects, and hands on what is to be stored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from convoy.brain.ingest.monitor.parts import Refused
from convoy.brain.ingest.monitor.pending import Pending
from convoy.brain.ingest.monitor.tally import Tally
from convoy.brain.ingest.monitor.told import named, translate
from convoy.core.cluster.follow import InSync, Known, OutOfSync, Pace, follow
from convoy.core.cluster.port import Change, ClusterReader, Kind
from convoy.core.process.clock import Clock


class Follower:
    """Follows a kind in one namespace, or in all (None); ``run`` is a thread's.

    Attributes:
        objects: how many there were when all was told last.
        in_sync: whether all that is there is told.
        began: set when that was so for the first time.
    """

    def __init__(
        self,
        reader: ClusterReader,
        kind: Kind,
        namespace: str | None,
        pending: Pending,
        tally: Tally,
        user_label: str,
        clock: Clock,
    ) -> None:
        self.kind = kind
        self.namespace = namespace
        self.objects = 0
        self.in_sync = False
        self.began = threading.Event()
        self._reader = reader
        self._pending = pending
        self._tally = tally
        self._user_label = user_label
        self._clock = clock

    def run(self, known: Callable[[], Iterable[Known]], stop: threading.Event, pace: Pace) -> None:
        """Follow until ``stop`` is set.

        Raises:
            Unusable: the first contact was refused.
        """
        for told in follow(
            self._reader, self.kind, self.namespace, stop=stop, known=known(), pace=pace, clock=self._clock
        ):
            match told:
                case InSync(objects=objects):
                    self.objects = objects
                    self.in_sync = True
                    self.began.set()
                case OutOfSync():
                    self.in_sync = False
                case Change():
                    self._take(told, stop)

    def _take(self, change: Change, stop: threading.Event) -> None:
        now = datetime.fromtimestamp(self._clock.now(), UTC)
        try:
            entry = translate(self.kind, change, self._user_label, now)
        except Refused as why:
            self._tally.left_out(self.kind, named(change.object), str(why))
            return
        if entry is None:
            self._tally.foreign(self.kind)
            return
        if entry.faults:
            self._tally.faulty(self.kind, entry.name, entry.faults)
        self._pending.put(entry, stop.is_set)
