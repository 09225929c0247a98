"""Following the objects of a kind through whatever happens to the cluster: list, watch, and list again after a loss.

    for told in follow(reader, Kind.POD, stop=stop, known=keys_in_my_database):
        match told:
            case Change(type="DELETED"): ...
            case Change(): ...
            case InSync(): ...
            case OutOfSync(): ...

It promises what an informer does, and a little more:

- each state of an object is told once, as ADDED (a uid not known yet) or MODIFIED, whatever lists and watches repeat;
- what went while nobody looked (the cluster out of reach, changes no longer kept, this process not running) is told
  as DELETED, at the latest before the next ``InSync``;
- where a name has a new owner, the old uid's DELETED comes before the new one's ADDED;
- an outage ends nothing: it is told once, waited out with growing pauses, and ended by a new list.

Remembered are uids and versions, no objects.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Self, TypeAlias

from convoy.core.api.errors import ConvoyError, Expired, InvalidInput, StateError, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Change, ClusterReader, Kind, api_version
from convoy.core.process import logs
from convoy.core.process.clock import Clock, SystemClock


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of an object: enough to notice that it changed, or that it went."""

    uid: str
    namespace: str
    name: str
    resource_version: str

    @classmethod
    def of(cls, manifest: Manifest) -> Self:
        """Return what to remember of an object; ``namespace`` is ``""`` where its kind has none."""
        metadata = manifest["metadata"]
        return cls(
            metadata["uid"], metadata.get("namespace", ""), metadata["name"], metadata.get("resourceVersion", "")
        )


@dataclass(frozen=True, slots=True)
class InSync:
    """A list was told to its end: what was told until now is how things stand at ``resource_version``."""

    resource_version: str
    objects: int


@dataclass(frozen=True, slots=True)
class OutOfSync:
    """The cluster can't be read: what was told may be stale until the next ``InSync``."""

    reason: str
    message: str


Told: TypeAlias = Change | InSync | OutOfSync


@dataclass(frozen=True, slots=True)
class Pace:
    """How often and how long, in seconds.

    Attributes:
        watch: the longest time of one watch, and so what a stop may take unless the reader is closed.
        resync: after which a new list is due though nothing was lost.
        first_wait: the pause after the first failure; each further one is twice as long, give or take.
        longest_wait: where that growth ends.
    """

    watch: float = 60.0
    resync: float = 900.0
    first_wait: float = 0.5
    longest_wait: float = 30.0


def follow(
    reader: ClusterReader,
    kind: Kind,
    namespace: str | None = None,
    *,
    stop: threading.Event,
    known: Iterable[Known] = (),
    pace: Pace | None = None,
    clock: Clock | None = None,
) -> Iterator[Told]:
    """Yield the changes of a kind's objects until ``stop`` is set; to stop at once, set it and close the reader.

    ``known`` is what an earlier life of the caller saw and has not seen go: of those objects only what changed is
    told, and what isn't there any more is DELETED. A DELETED that nobody watched carries apiVersion, kind and
    metadata (uid, namespace, name, the last known resourceVersion) and nothing else. What is known of other
    namespaces than the one that is followed stays untold.

    The caller is waited for: what it doesn't take isn't read. What it took isn't told again, so it keeps it until it
    has stored it. Several kinds want a thread each.

    Raises:
        Unusable: the first contact was refused; later refusals (a role taken away) are outages like others.
    """
    return _Follower(reader, kind, namespace, stop, known, pace or Pace(), clock or SystemClock()).run()


class _Follower:
    def __init__(
        self,
        reader: ClusterReader,
        kind: Kind,
        namespace: str | None,
        stop: threading.Event,
        known: Iterable[Known],
        pace: Pace,
        clock: Clock,
    ) -> None:
        self._reader = reader
        self._kind = kind
        self._namespace = namespace
        self._stop = stop
        self._memory = _Memory(kind, (one for one in known if namespace in (None, one.namespace)))
        self._pace = pace
        self._clock = clock
        self._failures = 0
        self._was_in_sync = False
        self._lost_at: float | None = None
        self._resync_at = 0.0
        self._log = logs.get("cluster.follow")

    def run(self) -> Iterator[Told]:
        while not self._stop.is_set():
            try:
                version = yield from self._list()
                yield from self._watch(version)
            except ConvoyError as error:
                if self._stop.is_set():
                    return
                self._failures += 1
                if isinstance(error, Expired) and self._failures == 1:
                    self._log.info("changes are no longer kept: listing again", **self._what(), message=str(error))
                    continue
                if not self._was_in_sync and isinstance(error, Unusable | InvalidInput | StateError):
                    raise
                if self._lost_at is None:
                    yield self._lost(error)
                self._wait()

    def _list(self) -> Generator[Told, None, str]:
        """Tell what a list shows, and what it no longer shows; return its version."""
        due = self._clock.monotonic()
        seen: set[str] = set()
        version = ""
        for page in self._reader.pages(self._kind, self._namespace):
            version = page.resource_version
            for item in page.items:
                seen.add(item["metadata"]["uid"])
                yield from self._memory.note(item)
                if self._stop.is_set():
                    return version
        yield from self._memory.forget_all_but(seen)
        yield self._found(InSync(version, len(seen)))
        self._resync_at = due + self._pace.resync
        return version

    def _watch(self, since: str) -> Generator[Change, None, None]:
        """Tell changes until a new list is due."""
        while not self._stop.is_set() and (left := self._resync_at - self._clock.monotonic()) > 0:
            begin = self._clock.monotonic()
            seconds = min(left, self._pace.watch)
            since = yield from self._changes(since, seconds)
            if self._clock.monotonic() - begin >= min(seconds, self._pace.first_wait):
                self._failures = 0
            else:  # somebody between hangs up at once: not as fast as it can go
                self._failures += 1
                self._wait()

    def _changes(self, since: str, seconds: float) -> Generator[Change, None, str]:
        watch = self._reader.watch(self._kind, since, self._namespace, timeout=seconds)
        while True:
            try:
                change = next(watch)
            except StopIteration as end:
                return str(end.value)
            since = change.object["metadata"]["resourceVersion"]
            self._failures = 0
            if change.type == "DELETED":
                self._memory.forget(change.object["metadata"]["uid"])
                yield change
            else:
                yield from self._memory.note(change.object)
            if self._stop.is_set():
                watch.close()
                return since

    def _lost(self, error: ConvoyError) -> OutOfSync:
        self._lost_at = self._clock.monotonic()
        self._log.warning("out of sync", **self._what(), reason=error.reason, message=str(error))
        return OutOfSync(error.reason, str(error))

    def _found(self, now: InSync) -> InSync:
        self._was_in_sync = True
        if self._lost_at is not None:
            seconds = round(self._clock.monotonic() - self._lost_at, 1)
            self._log.info("in sync again", **self._what(), seconds=seconds, failures=self._failures)
            self._lost_at = None
        return now

    def _wait(self) -> None:
        """Pause: twice as long as before, up to a bound, and never all followers at the same moment."""
        longest = min(self._pace.longest_wait, self._pace.first_wait * 2.0 ** min(self._failures - 1, 30))
        self._stop.wait(random.uniform(longest / 2, longest))

    def _what(self) -> dict[str, str]:
        return {"kind": str(self._kind), "namespace": self._namespace or "all"}


class _Memory:
    """What is known of a kind's objects, by uid; and which uid holds a name."""

    def __init__(self, kind: Kind, known: Iterable[Known]) -> None:
        self._kind = kind
        self._by_uid = {one.uid: one for one in known}
        self._holders = {(one.namespace, one.name): one.uid for one in self._by_uid.values()}

    def note(self, manifest: Manifest) -> Iterator[Change]:
        """Remember an object's state; yield what is new about it."""
        new = Known.of(manifest)
        before = self._by_uid.get(new.uid)
        if before == new:
            return
        holder = self._holders.get((new.namespace, new.name), new.uid)
        if holder != new.uid:
            yield self._gone(holder)
        self._by_uid[new.uid] = new
        self._holders[new.namespace, new.name] = new.uid
        yield Change("MODIFIED" if before else "ADDED", manifest)

    def forget(self, uid: str) -> Known | None:
        """Drop an object that went, and return what was known of it."""
        gone = self._by_uid.pop(uid, None)
        if gone is not None and self._holders.get((gone.namespace, gone.name)) == uid:
            del self._holders[gone.namespace, gone.name]
        return gone

    def forget_all_but(self, uids: set[str]) -> Iterator[Change]:
        """Drop the others, each with its DELETED."""
        for uid in self._by_uid.keys() - uids:
            yield self._gone(uid)

    def _gone(self, uid: str) -> Change:
        gone = self.forget(uid)
        assert gone is not None
        metadata: Manifest = {"name": gone.name, "uid": uid, "resourceVersion": gone.resource_version}
        if gone.namespace:
            metadata["namespace"] = gone.namespace
        return Change(
            "DELETED", {"apiVersion": api_version(self._kind), "kind": str(self._kind), "metadata": metadata}
        )
