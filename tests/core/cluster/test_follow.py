"""Following a kind: each state is told once, nothing that went is missed, and no outage ends it.

Runs on the local adapter, which can be as far away as a test wants; ``kubernetes/test_outages.py`` does the same to a
real API server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.core.api.errors import ConvoyError, Expired, NotFound, Unavailable, Unusable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.follow import InSync, Known, OutOfSync, Pace, Told, follow
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.cluster.port import Change, Kind, Listing

QUICK = Pace(watch=0.2, resync=60.0, first_wait=0.01, longest_wait=0.05)


def secret(name: str, value: str = "") -> Manifest:
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"value": value}}


def put(cluster: LocalCluster, name: str, value: str = "") -> Known:
    return Known.of(cluster.apply(secret(name, value), field_manager="t"))


def drop(cluster: LocalCluster, name: str) -> None:
    cluster.delete(Kind.SECRET, "default", name)


def brief(told: Told) -> str:
    if isinstance(told, Change):
        return f"{told.type} {told.object['metadata']['name']}"
    return type(told).__name__


class Distant:
    """A way to a cluster that fails as the test says: each error once, in order, by the verb that meets it."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.on_list: list[ConvoyError] = []
        self.on_watch: list[ConvoyError] = []
        self.lists = 0

    def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        return self.cluster.get(kind, namespace, name)

    def list(self, kind: Kind, namespace: str | None = None, labels: object = None) -> Listing:
        raise AssertionError("follow reads pages")

    def pages(self, kind: Kind, namespace: str | None = None) -> Iterator[Listing]:
        self.lists += 1
        for error in self.on_list[:1]:
            del self.on_list[0]
            raise error
        items = self.cluster.list(kind, namespace)
        for item in items.items:  # a page each
            yield Listing([item], items.resource_version)
        yield Listing([], items.resource_version)

    def watch(
        self, kind: Kind, since: str, namespace: str | None = None, *, timeout: float = 30.0
    ) -> Generator[Change, None, str]:
        for error in self.on_watch[:1]:
            del self.on_watch[0]
            raise error
        return (yield from self.cluster.watch(kind, since, namespace, timeout=timeout))

    def logs(self, namespace: str, pod: str, *, tail: int | None = None) -> str:
        return self.cluster.logs(namespace, pod, tail=tail)


@pytest.fixture
def distant(cluster: LocalCluster) -> Distant:
    return Distant(cluster)


@pytest.fixture
def stop() -> threading.Event:
    return threading.Event()


def take(told: Iterator[Told], count: int) -> list[str]:
    return [brief(next(told)) for _ in range(count)]


class TestTelling:
    def test_first_all_that_is_there_then_each_change(self, cluster: LocalCluster, stop: threading.Event) -> None:
        put(cluster, "a")
        put(cluster, "b")
        told = follow(cluster, Kind.SECRET, stop=stop, pace=QUICK)
        assert take(told, 3) == ["ADDED a", "ADDED b", "InSync"]
        put(cluster, "c")
        put(cluster, "a", "new")
        drop(cluster, "b")
        assert take(told, 3) == ["ADDED c", "MODIFIED a", "DELETED b"]

    def test_in_sync_says_how_much_there_is_and_at_which_version(
        self, cluster: LocalCluster, stop: threading.Event
    ) -> None:
        put(cluster, "a")
        *_, last = (next(told) for told in [follow(cluster, Kind.SECRET, stop=stop, pace=QUICK)] for _ in range(2))
        assert last == InSync(cluster.list(Kind.SECRET).resource_version, 1)

    def test_a_new_list_repeats_nothing(self, distant: Distant, stop: threading.Event) -> None:
        put(distant.cluster, "a")
        told = follow(distant, Kind.SECRET, stop=stop, pace=Pace(watch=0.05, resync=0.1))
        assert take(told, 4) == ["ADDED a", "InSync", "InSync", "InSync"]
        assert distant.lists == 3

    def test_it_keeps_to_its_namespace(self, cluster: LocalCluster, stop: threading.Event) -> None:
        elsewhere = secret("other")
        elsewhere["metadata"]["namespace"] = "elsewhere"
        cluster.create(elsewhere, field_manager="t")
        put(cluster, "a")
        told = follow(cluster, Kind.SECRET, "default", stop=stop, pace=QUICK)
        assert take(told, 2) == ["ADDED a", "InSync"]

    def test_one_machine_has_no_events(self, cluster: LocalCluster, stop: threading.Event) -> None:
        assert take(follow(cluster, Kind.EVENT, stop=stop, pace=QUICK), 1) == ["InSync"]

    def test_a_closed_cluster_and_a_stop_end_it_at_once(self, cluster: LocalCluster, stop: threading.Event) -> None:
        told = follow(cluster, Kind.SECRET, stop=stop, pace=Pace(watch=50))
        next(told)
        begin = time.monotonic()
        threading.Timer(0.1, stop.set).start()
        threading.Timer(0.2, cluster.close).start()
        assert list(told) == []
        assert time.monotonic() - begin < 5


class TestWhatWentMeanwhile:
    def test_what_an_earlier_life_knew_is_told_only_where_it_changed(
        self, cluster: LocalCluster, stop: threading.Event
    ) -> None:
        known = [put(cluster, name) for name in ("same", "changed", "gone")]
        drop(cluster, "gone")
        put(cluster, "changed", "new")
        put(cluster, "new")
        told = follow(cluster, Kind.SECRET, stop=stop, known=known, pace=QUICK)
        assert take(told, 4) == ["MODIFIED changed", "ADDED new", "DELETED gone", "InSync"]

    def test_what_nobody_saw_go_has_only_its_identity(self, cluster: LocalCluster, stop: threading.Event) -> None:
        known = put(cluster, "gone")
        drop(cluster, "gone")
        told = next(follow(cluster, Kind.SECRET, stop=stop, known=[known], pace=QUICK))
        assert told == Change(
            "DELETED",
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "namespace": "default",
                    "name": "gone",
                    "uid": known.uid,
                    "resourceVersion": known.resource_version,
                },
            },
        )

    def test_the_old_holder_of_a_name_goes_before_the_new_one_comes(
        self, cluster: LocalCluster, stop: threading.Event
    ) -> None:
        old = put(cluster, "a")
        drop(cluster, "a")
        new = put(cluster, "a")
        told = follow(cluster, Kind.SECRET, stop=stop, known=[old], pace=QUICK)
        seen = [next(told) for _ in range(3)]
        assert [brief(one) for one in seen] == ["DELETED a", "ADDED a", "InSync"]
        assert [one.object["metadata"]["uid"] for one in seen if isinstance(one, Change)] == [old.uid, new.uid]

    def test_two_earlier_holders_of_a_name_both_go(self, cluster: LocalCluster, stop: threading.Event) -> None:
        known = [Known("u1", "default", "a", "1"), Known("u2", "default", "a", "2")]
        told = follow(cluster, Kind.SECRET, stop=stop, known=known, pace=QUICK)
        gone = [one.object["metadata"]["uid"] for one in (next(told), next(told)) if isinstance(one, Change)]
        assert sorted(gone) == ["u1", "u2"]

    def test_what_is_known_of_another_namespace_is_left_alone(
        self, cluster: LocalCluster, stop: threading.Event
    ) -> None:
        known = [Known("u1", "default", "a", "1"), Known("u2", "elsewhere", "b", "2")]
        told = follow(cluster, Kind.SECRET, "default", stop=stop, known=known, pace=QUICK)
        assert take(told, 2) == ["DELETED a", "InSync"]

    def test_changes_that_are_no_longer_kept_are_found_by_a_list(
        self, distant: Distant, stop: threading.Event
    ) -> None:
        for name in ("a", "b"):
            put(distant.cluster, name)
        told = follow(distant, Kind.SECRET, stop=stop, pace=QUICK)
        take(told, 3)
        drop(distant.cluster, "a")
        put(distant.cluster, "b", "new")
        distant.on_watch = [Expired("too old")]
        assert take(told, 3) == ["MODIFIED b", "DELETED a", "InSync"]


class TestOutages:
    def test_one_is_told_once_and_ended_by_a_list(self, distant: Distant, stop: threading.Event) -> None:
        put(distant.cluster, "a")
        told = follow(distant, Kind.SECRET, stop=stop, pace=QUICK)
        take(told, 2)
        distant.on_watch = [Unavailable("away")]
        distant.on_list = [Unavailable("away"), Unavailable("still", reason="Closed")]
        drop(distant.cluster, "a")
        assert next(told) == OutOfSync("Unavailable", "away")
        assert take(told, 2) == ["DELETED a", "InSync"]
        assert distant.lists == 4

    def test_one_at_the_start_is_waited_out(self, distant: Distant, stop: threading.Event) -> None:
        distant.on_list = [Unavailable("not up yet")] * 3
        assert take(follow(distant, Kind.SECRET, stop=stop, pace=QUICK), 2) == ["OutOfSync", "InSync"]

    def test_a_refusal_at_the_start_is_raised_and_a_later_one_waited_out(
        self, distant: Distant, stop: threading.Event
    ) -> None:
        distant.on_list = [Unusable("may not", reason="Forbidden")]
        with pytest.raises(Unusable, match="may not"):
            next(follow(distant, Kind.SECRET, stop=stop, pace=QUICK))
        told = follow(distant, Kind.SECRET, stop=stop, pace=QUICK)
        take(told, 1)
        distant.on_watch = [Unusable("may no longer", reason="Forbidden")]
        assert next(told) == OutOfSync("Forbidden", "may no longer")
        assert take(told, 1) == ["InSync"]

    def test_versions_that_expire_again_and_again_are_an_outage(
        self, distant: Distant, stop: threading.Event
    ) -> None:
        told = follow(distant, Kind.SECRET, stop=stop, pace=QUICK)
        take(told, 1)
        distant.on_watch = [Expired("too old")] * 3
        assert take(told, 5) == ["InSync", "OutOfSync", "InSync", "OutOfSync", "InSync"]

    def test_pauses_grow_to_a_bound_and_differ(self, distant: Distant) -> None:
        class Impatient(threading.Event):
            pauses: tuple[float, ...] = ()

            def wait(self, timeout: float | None = None) -> bool:
                self.pauses += (timeout or 0.0,)
                return False

        stop = Impatient()
        distant.on_list = [Unavailable("away")] * 12
        told = follow(distant, Kind.SECRET, stop=stop, pace=Pace(first_wait=1.0, longest_wait=30.0))
        assert take(told, 2) == ["OutOfSync", "InSync"]
        longest = [min(30.0, 2.0**n) for n in range(12)]
        assert len(stop.pauses) == 12
        assert all(most / 2 <= pause <= most for pause, most in zip(stop.pauses, longest, strict=True))
        assert len(set(stop.pauses[5:])) > 1

    def test_a_peer_that_hangs_up_at_once_isnt_asked_as_fast_as_it_can_go(self, stop: threading.Event) -> None:
        class HangsUp(Distant):
            watches = 0

            def watch(
                self, kind: Kind, since: str, namespace: str | None = None, *, timeout: float = 30.0
            ) -> Generator[Change, None, str]:
                self.watches += 1
                yield from ()
                return since

        with open_cluster(Path.home()) as cluster:
            reader = HangsUp(cluster)
            threading.Timer(1.0, stop.set).start()
            list(follow(reader, Kind.SECRET, stop=stop, pace=Pace(first_wait=0.1, longest_wait=0.2)))
            assert 3 <= reader.watches <= 15


NAMES = st.sampled_from("abc")
DEEDS = st.one_of(
    st.tuples(st.just("put"), NAMES), st.tuples(st.just("drop"), NAMES), st.tuples(st.just("lose"), st.just(""))
)


@settings(max_examples=25)
@given(before=st.lists(DEEDS, max_size=6), away=st.lists(DEEDS, max_size=6), after=st.lists(DEEDS, max_size=12))
def test_whoever_does_as_told_has_what_the_cluster_has(
    tmp_path_factory: pytest.TempPathFactory,
    before: list[tuple[str, str]],
    away: list[tuple[str, str]],
    after: list[tuple[str, str]],
) -> None:
    with open_cluster(tmp_path_factory.mktemp("history")) as cluster:
        distant, mine = Distant(cluster), dict[str, Known]()
        _do(distant, before)
        _live(distant, mine, [])
        assert mine == _truth(cluster)
        _do(distant, away)  # while no follower lives
        _live(distant, mine, after)
        assert mine == _truth(cluster)


def _do(distant: Distant, deeds: list[tuple[str, str]]) -> None:
    for number, (deed, name) in enumerate(deeds):
        if deed == "put":
            put(distant.cluster, name, str(number))
        elif deed == "lose":
            distant.on_watch.append(Expired("too old") if number % 2 else Unavailable("away"))
        else:
            try:
                drop(distant.cluster, name)
            except NotFound:
                continue


def _live(distant: Distant, mine: dict[str, Known], deeds: list[tuple[str, str]]) -> None:
    """Follow from what is known, doing deeds meanwhile, until all of them are told."""
    stop = threading.Event()
    distant.on_watch.clear()
    told = follow(distant, Kind.SECRET, stop=stop, known=list(mine.values()), pace=Pace(0.01, 0.05, 0.001, 0.002))
    rest, quiet = list(deeds), 0
    for one in told:
        if isinstance(one, Change):
            known = Known.of(one.object)
            if one.type == "DELETED":
                del mine[known.uid]
            else:
                assert (known.uid in mine) == (one.type == "MODIFIED")
                assert mine.get(known.uid) != known, "told twice"
                assert all(known.name != other.name for other in mine.values() if other.uid != known.uid)
                mine[known.uid] = known
        _do(distant, rest[:2])
        del rest[:2]
        quiet = quiet + 1 if isinstance(one, InSync) and not rest and not distant.on_watch else 0
        if quiet == 2:
            stop.set()


def _truth(cluster: LocalCluster) -> dict[str, Known]:
    return {one.uid: one for one in map(Known.of, cluster.list(Kind.SECRET).items)}
