"""Leaders of real processes on a real API server: killed, frozen, cut off, asked to stop. Never two at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from convoy.core.api.errors import Fenced, InvalidInput, Unusable
from convoy.core.cluster.kubernetes import KubernetesCluster
from convoy.core.cluster.kubernetes.connection import Limits
from convoy.core.cluster.kubernetes.election import Election, identity
from convoy.core.cluster.port import Kind
from servers.api_server import ApiServer
from support.disposable import disposable_api_server
from support.line import line_to
from support.waiting import until

LEASE, RENEW, RETRY = 3.0, 2.0, 0.3

PROGRAM = """
import os, signal, sys, threading, time
from pathlib import Path
from convoy.core.cluster.kubernetes import KubernetesCluster
from convoy.core.cluster.kubernetes.election import Election

kubeconfig, lease, name, journal = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
file = os.open(journal, os.O_WRONLY | os.O_APPEND)
with KubernetesCluster.open(Path(kubeconfig)) as cluster:
    election = Election(
        cluster, "default", lease, name, lease_seconds=3.0, renew_seconds=2.0, retry_seconds=0.3
    )
    os.write(file, f"{time.monotonic_ns()} {name} stands\\n".encode())
    if election.lead(stop):
        while not stop.is_set() and not election.lost.is_set():
            if election.held:
                os.write(file, f"{time.monotonic_ns()} {name}\\n".encode())
            time.sleep(0.02)
        election.release()
    os.write(file, f"{time.monotonic_ns()} {name} {'stopped' if stop.is_set() else 'lost'}\\n".encode())
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with disposable_api_server(tmp_path_factory.mktemp("api-server")) as started:
        yield started


@dataclass
class Journal:
    """What the processes wrote, in the order of writing."""

    path: Path

    def lines(self) -> list[list[str]]:
        return [line.split()[1:] for line in self.path.read_text().splitlines()]

    def acts(self) -> list[str]:
        """Return who acted, each run of acts once."""
        names = [words[0] for words in self.lines() if len(words) == 1]
        return [name for index, name in enumerate(names) if index == 0 or names[index - 1] != name]

    def said(self) -> list[str]:
        return [" ".join(words) for words in self.lines() if len(words) == 2]

    def last_act(self, name: str) -> float:
        rows = [line.split() for line in self.path.read_text().splitlines()]
        return max(int(row[0]) for row in rows if row[1:] == [name]) / 1e9

    def first_act(self, name: str) -> float:
        rows = [line.split() for line in self.path.read_text().splitlines()]
        return min(int(row[0]) for row in rows if row[1:] == [name]) / 1e9


Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def journal(home: Path) -> Journal:
    path = home / "journal"
    path.touch()
    return Journal(path)


@pytest.fixture
def start(server: ApiServer, home: Path, journal: Journal) -> Iterator[Start]:
    """Give what starts a process that stands for election and, while it leads, acts 50 times a second."""
    lease = f"lease-{uuid.uuid4().hex[:8]}"
    running: list[subprocess.Popen[bytes]] = []

    def begin(name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", PROGRAM, str(server.kubeconfig), lease, name, str(journal.path)]
        running.append(subprocess.Popen(command))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait(10)


@pytest.mark.servers
class TestProcesses:
    def test_one_that_is_killed_is_succeeded_when_its_lease_is_over(self, start: Start, journal: Journal) -> None:
        first = start("a")
        until(lambda: journal.acts() == ["a"], "the first to lead", timeout=20)
        self.second(start, journal)
        time.sleep(1.0)
        assert journal.acts() == ["a"]
        first.send_signal(signal.SIGKILL)
        until(lambda: journal.acts() == ["a", "b"], "the second to lead", timeout=20)
        assert journal.first_act("b") - journal.last_act("a") >= LEASE - RENEW

    def test_one_that_is_frozen_acts_no_more_when_it_wakes(self, start: Start, journal: Journal) -> None:
        first = start("a")
        until(lambda: journal.acts() == ["a"], "the first to lead", timeout=20)
        self.second(start, journal)
        first.send_signal(signal.SIGSTOP)
        until(lambda: journal.acts() == ["a", "b"], "the second to lead", timeout=20)
        first.send_signal(signal.SIGCONT)
        until(lambda: "a lost" in journal.said(), "the first to notice")
        first.wait(10)
        time.sleep(0.5)
        assert journal.acts() == ["a", "b"]
        assert journal.first_act("b") - journal.last_act("a") >= LEASE - RENEW

    def test_one_that_was_frozen_for_less_than_that_goes_on(self, start: Start, journal: Journal) -> None:
        first = start("a")
        until(lambda: journal.acts() == ["a"], "the first to lead", timeout=20)
        self.second(start, journal)
        for _ in range(3):
            first.send_signal(signal.SIGSTOP)
            time.sleep(0.4)
            first.send_signal(signal.SIGCONT)
            time.sleep(0.6)
        assert journal.acts() == ["a"]
        assert journal.said() == ["a stands", "b stands"]

    def test_one_that_is_asked_to_stop_is_succeeded_at_once(self, start: Start, journal: Journal) -> None:
        first = start("a")
        until(lambda: journal.acts() == ["a"], "the first to lead", timeout=20)
        self.second(start, journal)
        first.terminate()
        until(lambda: journal.acts() == ["a", "b"], "the second to lead", timeout=20)
        assert journal.first_act("b") - journal.last_act("a") < RENEW
        assert journal.said() == ["a stands", "b stands", "a stopped"]

    @staticmethod
    def second(start: Start, journal: Journal) -> None:
        """Have another process stand for election, and look at the Lease at least once."""
        start("b")
        until(lambda: "b stands" in journal.said(), "the second to stand", timeout=20)
        time.sleep(2 * RETRY)


@pytest.mark.servers
class TestInOneProcess:
    @pytest.fixture
    def cluster(self, server: ApiServer) -> Iterator[KubernetesCluster]:
        with KubernetesCluster.open(server.kubeconfig) as opened:
            yield opened

    @staticmethod
    def election(cluster: KubernetesCluster, name: str) -> Election:
        return Election(
            cluster, "default", name, identity(), lease_seconds=LEASE, renew_seconds=RENEW, retry_seconds=RETRY
        )

    def test_of_many_one_leads(self, cluster: KubernetesCluster) -> None:
        candidates = [self.election(cluster, "many") for _ in range(6)]
        stop = threading.Event()
        threads = [threading.Thread(target=one.lead, args=(stop,)) for one in candidates]
        for thread in threads:
            thread.start()
        until(lambda: any(one.held for one in candidates), "a leader")
        time.sleep(1.0)
        assert sum(one.held for one in candidates) == 1
        stop.set()
        for thread in threads:
            thread.join(10)
        (leader,) = [one for one in candidates if one.held]
        leader.check()
        leader.release()
        assert not leader.lost.is_set()
        with pytest.raises(Fenced, match="default/many"):
            leader.check()

    def test_one_that_hears_nothing_more_is_told_in_time(
        self, server: ApiServer, cluster: KubernetesCluster, home: Path
    ) -> None:
        """Its renewals arrive for a while, their answers don't: it stops, though it holds the Lease by then."""
        with line_to(server.port) as line:
            path = line.kubeconfig(server.kubeconfig, home / "over-the-line")
            with KubernetesCluster.open(path, limits=Limits(answer=20.0)) as cut_off:
                election = self.election(cut_off, "deaf")
                assert election.lead(threading.Event())
                line.deaf.set()
                begin = time.monotonic()
                assert election.lost.wait(RENEW + 1)
                assert time.monotonic() - begin <= RENEW + 0.5
                assert not election.held
                other = self.election(cluster, "deaf")
                assert other.lead(threading.Event())
                assert time.monotonic() - begin >= LEASE - RETRY
                other.release()

    def test_one_whose_answer_was_lost_goes_on_with_what_was_done(
        self, server: ApiServer, cluster: KubernetesCluster, home: Path
    ) -> None:
        with line_to(server.port) as line:
            path = line.kubeconfig(server.kubeconfig, home / "over-the-line")
            with KubernetesCluster.open(path, limits=Limits(answer=0.5)) as shaky:
                election = self.election(shaky, "shaky")
                assert election.lead(threading.Event())
                before = cluster.get(Kind.LEASE, "default", "shaky")["metadata"]["resourceVersion"]
                line.deaf.set()
                until(
                    lambda: cluster.get(Kind.LEASE, "default", "shaky")["metadata"]["resourceVersion"] != before,
                    "a renewal to arrive",
                )
                line.deaf.clear()
                assert not election.lost.wait(LEASE)
                assert election.held
                election.release()

    def test_it_ends_when_asked_though_another_leads(self, cluster: KubernetesCluster) -> None:
        first = self.election(cluster, "waited-for")
        assert first.lead(threading.Event())
        stop = threading.Event()
        threading.Timer(0.5, stop.set).start()
        begin = time.monotonic()
        assert not self.election(cluster, "waited-for").lead(stop)
        assert time.monotonic() - begin < 2
        first.release()

    def test_who_may_not_is_told_at_once(self, server: ApiServer) -> None:
        with KubernetesCluster.open(server.kubeconfig, "nobody") as nobody, pytest.raises(Unusable, match="leases"):
            self.election(nobody, "mine").lead(threading.Event())

    def test_it_waits_for_a_server_that_is_away(self, server: ApiServer, cluster: KubernetesCluster) -> None:
        quick = Limits(connect=0.5, answer=0.5, whole=1.0)
        server.freeze()
        try:
            with KubernetesCluster.open(server.kubeconfig, limits=quick) as patient:
                threading.Timer(2.0, server.thaw).start()
                election = self.election(patient, "away")
                assert election.lead(threading.Event())
                election.release()
        finally:
            server.thaw()


@pytest.mark.parametrize(("lease", "renew", "retry"), [(3, 3, 1), (3, 2, 2), (3, 2, 0), (2, 3, 1)])
def test_times_that_dont_fit_are_refused(lease: float, renew: float, retry: float, home: Path) -> None:
    with pytest.raises(InvalidInput, match="expected 0 < retry_seconds < renew_seconds < lease_seconds"):
        Election(
            None,  # type: ignore[arg-type]  # it isn't asked
            "default",
            "one",
            "me",
            lease_seconds=lease,
            renew_seconds=renew,
            retry_seconds=retry,
        )


def test_no_two_processes_have_one_identity() -> None:
    assert len({identity() for _ in range(100)}) == 100
    assert os.uname().nodename in identity()
