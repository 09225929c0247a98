"""Who holds a Lease, whatever is lost on the way, in whatever order: never two, on a real compare-and-swap."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.core.api.errors import ConvoyError, Unavailable
from convoy.core.api.meta import Manifest
from convoy.core.cluster.kubernetes.candidate import Candidate
from convoy.core.cluster.kubernetes.lease import Lease, Sight
from convoy.core.cluster.local import LocalCluster, open_cluster
from convoy.core.cluster.port import Cluster, Kind
from support.clock import FakeClock

LEASE_SECONDS, RENEW_SECONDS = 15.0, 10.0
Loss = Literal["nothing", "request", "answer"]


@dataclass
class Way:
    """A cluster as one candidate reaches it: each call takes time, during which others act, and may get lost."""

    cluster: Cluster
    meanwhile: Callable[[], None]
    losses: list[Loss] = field(default_factory=list)

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            loss = self.losses.pop() if self.losses else "nothing"
            self.meanwhile()
            if loss == "request":
                raise Unavailable("the request was lost")
            answer = getattr(self.cluster, verb)(*arguments, **named)
            self.meanwhile()
            if loss == "answer":
                raise Unavailable("the answer was lost")
            return answer

        return call


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with open_cluster(tmp_path_factory.mktemp("cluster")) as opened:
        yield opened


class World:
    """Candidates with clocks that agree on nothing but how fast time passes."""

    def __init__(self, cluster: LocalCluster, data: st.DataObject) -> None:
        self.cluster = cluster
        self.data = data
        self.name = f"lease-{uuid.uuid4().hex}"
        self.clocks: list[FakeClock] = []
        self.ways: list[Way] = []
        self.candidates: list[Candidate] = []
        self.depth = 0
        self.led: set[int] = set()
        for _ in range(3):
            self.join()

    def join(self) -> None:
        """Let one more candidate come, as a restarted process does."""
        clock = FakeClock()
        clock.advance(self.data.draw(st.floats(0, 1e6)))
        way = Way(self.cluster, self.meanwhile)
        self.clocks.append(clock)
        self.ways.append(way)
        candidate = Candidate(
            cast(Cluster, way),
            "default",
            self.name,
            f"candidate-{len(self.candidates)}",
            lease_seconds=LEASE_SECONDS,
            renew_seconds=RENEW_SECONDS,
            clock=clock,
        )
        self.candidates.append(candidate)

    def leaders(self) -> list[int]:
        return [
            number
            for number, (candidate, clock) in enumerate(zip(self.candidates, self.clocks, strict=True))
            if clock.monotonic() < candidate.until
        ]

    def pass_time(self, seconds: float) -> None:
        for clock in self.clocks:
            clock.advance(seconds)

    def meanwhile(self) -> None:
        """Let time pass in the middle of a call, and once in a while another candidate act."""
        for pause in self.data.draw(st.lists(st.sampled_from([0.1, 4.0, 16.0]), max_size=2)):
            if self.depth < 2:
                self.act()
            self.pass_time(pause)

    def act(self) -> None:
        number = self.data.draw(st.integers(0, len(self.candidates) - 1))
        candidate, way = self.candidates[number], self.ways[number]
        if way.losses:  # it is in the middle of a call
            return
        way.losses = self.data.draw(st.lists(st.sampled_from(["nothing", "request", "answer"]), max_size=2))
        self.depth += 1
        try:
            if number not in self.leaders():
                candidate.take()
            elif self.data.draw(st.integers(0, 5)) == 0:
                candidate.release()
            else:
                candidate.renew()
        except ConvoyError:
            pass
        finally:
            self.depth -= 1
            way.losses = []
        now = self.leaders()
        self.led.update(now)
        assert len(now) <= 1, f"two lead: {now}"


@given(data=st.data(), pauses=st.lists(st.sampled_from([0.5, 2.0, 2.0, 5.0, 9.0, 16.0]), min_size=5, max_size=25))
@settings(max_examples=40)
def test_never_two_hold_it(cluster: LocalCluster, data: st.DataObject, pauses: list[float]) -> None:
    world = World(cluster, data)
    for pause in pauses:
        world.act()
        world.pass_time(pause)
        assert len(world.leaders()) <= 1
        if data.draw(st.integers(0, 9)) == 0:
            world.join()


def candidate(cluster: Cluster, name: str, identity: str, clock: FakeClock) -> Candidate:
    return Candidate(
        cluster, "default", name, identity, lease_seconds=LEASE_SECONDS, renew_seconds=RENEW_SECONDS, clock=clock
    )


def test_one_that_is_left_is_taken_when_its_time_is_over_and_not_before(
    cluster: LocalCluster, clock: FakeClock
) -> None:
    one, other = (candidate(cluster, "left", identity, clock) for identity in ("one", "other"))
    assert one.take()
    assert not other.take()
    clock.advance(LEASE_SECONDS - 0.1)
    assert clock.monotonic() >= one.until
    assert not other.take()
    clock.advance(0.2)
    assert other.take()
    assert not one.renew()
    assert not one.take()
    spec = cluster.get(Kind.LEASE, "default", "left")["spec"]
    assert (spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"]) == ("other", 15, 1)


def test_an_answer_that_comes_late_counts_from_when_it_was_asked_for(cluster: LocalCluster, clock: FakeClock) -> None:
    slow = cast(Cluster, Way(cluster, lambda: clock.advance(3.0)))
    begin = clock.monotonic()
    one = candidate(slow, "late", "one", clock)
    assert one.take()  # the answer to its read comes after 3 s, that to its write after 6 more
    assert clock.monotonic() == begin + 9.0
    assert one.until == begin + 3.0 + RENEW_SECONDS
    begin = clock.monotonic()
    assert one.renew()
    assert one.until == begin + RENEW_SECONDS


def test_who_saw_it_before_his_answer_came_counts_from_its_coming(cluster: LocalCluster, clock: FakeClock) -> None:
    one = candidate(cluster, "seen", "one", clock)
    other = candidate(cast(Cluster, Way(cluster, lambda: clock.advance(3.0))), "seen", "other", clock)
    assert one.take()
    assert not other.take()
    clock.advance(LEASE_SECONDS - 6.1)
    assert not other.take()


def test_one_that_is_renewed_stays_and_says_since_when(cluster: LocalCluster, clock: FakeClock) -> None:
    one, other = (candidate(cluster, "kept", identity, clock) for identity in ("one", "other"))
    assert one.take()
    since = cluster.get(Kind.LEASE, "default", "kept")["spec"]["acquireTime"]
    for _ in range(10):
        clock.advance(8.0)
        assert one.renew()
        assert not other.take()
    spec = cluster.get(Kind.LEASE, "default", "kept")["spec"]
    assert (spec["acquireTime"], spec["leaseTransitions"]) == (since, 0)
    assert spec["renewTime"] > since


def test_one_that_is_released_is_taken_at_once(cluster: LocalCluster, clock: FakeClock) -> None:
    one, other = (candidate(cluster, "released", identity, clock) for identity in ("one", "other"))
    assert one.take()
    assert not other.take()
    one.release()
    assert other.take()


def test_one_that_is_deleted_is_lost_and_others_give_its_holder_its_time(
    cluster: LocalCluster, clock: FakeClock
) -> None:
    one, other = (candidate(cluster, "deleted", identity, clock) for identity in ("one", "other"))
    assert one.take()
    assert not other.take()
    cluster.delete(Kind.LEASE, "default", "deleted")
    assert not other.take()
    assert not one.renew()
    clock.advance(LEASE_SECONDS)
    assert other.take()


def test_what_others_note_on_it_loses_nothing(cluster: LocalCluster, clock: FakeClock) -> None:
    one = candidate(cluster, "noted", "one", clock)
    assert one.take()
    lease = cluster.get(Kind.LEASE, "default", "noted")
    noted = {**lease, "metadata": {"name": "noted", "annotations": {"note": "hands off"}}, "spec": {}}
    cluster.apply(noted, field_manager="somebody")
    assert one.renew()
    assert cluster.get(Kind.LEASE, "default", "noted")["metadata"]["annotations"] == {"note": "hands off"}


@pytest.mark.parametrize(
    ("spec", "free"),
    [
        (None, True),
        ({}, True),
        ({"holderIdentity": ""}, True),
        ({"holderIdentity": "me"}, True),
        ({"holderIdentity": "you"}, False),
        ({"holderIdentity": "you", "leaseDurationSeconds": None}, False),
    ],
)
def test_a_lease_of_another_writer_is_understood(spec: Manifest | None, free: bool) -> None:
    sight = Sight("me", 15.0)
    sight.look(Lease.of({"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": spec}), 100.0)
    assert sight.may_take(100.0) is free
    assert sight.may_take(115.0)


def test_a_longer_lease_than_ones_own_is_respected() -> None:
    sight = Sight("me", 15.0)
    spec = {"holderIdentity": "you", "leaseDurationSeconds": 60}
    sight.look(Lease.of({"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": spec}), 100.0)
    assert not sight.may_take(159.0)
    assert sight.may_take(160.0)
