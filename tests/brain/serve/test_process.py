import resource
import socket
import threading
import time

import pytest
import sqlalchemy as sa

from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.tables import TrainingSpeed
from convoy.core.api.errors import DeadlineMissed, Unavailable
from support.brain import BrainProcess, Master
from support.reports import report, window
from support.waiting import until


def steps(url):
    engine = open_engine(url)
    with reading(engine) as connection:
        found = list(connection.execute(sa.select(TrainingSpeed.last_step)).scalars())
    engine.dispose()
    return sorted(found)


YESTERDAY = time.time() - 86_400
"""Not the other tests' fixed moment: these Brains go by the real clock and take nothing that is too old to keep."""


class Stream(threading.Thread):
    """Sends windows one after the other, each until it is acknowledged; a new master every now and then."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._address = f"127.0.0.1:{port}"
        self.acknowledged: list[int] = []
        self.sent = 0
        self.stop = threading.Event()

    def run(self) -> None:
        master = Master(self._address)
        while not self.stop.is_set():
            self.sent += 1
            given = report(*(window(self.sent * 10 + n, start=YESTERDAY) for n in range(10)))
            while True:
                try:
                    master.report(given, timeout=5.0)
                    break
                except (Unavailable, DeadlineMissed):
                    if self.stop.is_set():
                        master.close()
                        return
                    time.sleep(0.02)
            self.acknowledged.extend(sample.last_step for sample in given.speed)
        master.close()


def used() -> float:
    """Return the CPU seconds of this process's ended children: other tests' load doesn't lengthen them."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.parametrize("crash_at", ["", "brain.report.after-commit:9"])
def test_a_brain_killed_amid_reports_loses_no_acknowledged_row_and_stores_none_twice(store, crash_at):
    port = free_port()
    stream = Stream(port)
    brain = BrainProcess(store, port=port, CONVOY_CRASH_AT=crash_at or "nowhere")
    assert brain.address
    stream.start()
    if crash_at:
        assert brain.wait() == -9
    else:
        until(lambda: len(stream.acknowledged) > 20, "reports to be acknowledged")
        brain.kill()
    before = len(stream.acknowledged)
    assert before > 0
    brain = BrainProcess(store, port=port)
    assert brain.address
    until(lambda: len(stream.acknowledged) >= before + 50, "the next Brain to acknowledge reports", timeout=30)
    stream.stop.set()
    stream.join(20)
    assert brain.end() == 0
    stored = steps(store)
    assert set(stream.acknowledged) <= set(stored)
    assert len(stored) == len(set(stored))
    assert set(stored) <= {n for number in range(1, stream.sent + 1) for n in range(number * 10, number * 10 + 10)}


def test_two_brains_that_start_together_both_serve(store):
    brains = [BrainProcess(store) for _ in range(2)]
    for number, brain in enumerate(brains):
        master = Master(brain.address, sender=f"master-{number}")
        assert master.report(report(window(number, start=YESTERDAY))).stored == 1
        master.close()
    assert [brain.end() for brain in brains] == [0, 0]
    assert steps(store) == [0, 1]


def refusal(brain: BrainProcess) -> str:
    before = used()
    assert brain.wait(20) == 2
    assert used() - before < 2.0
    [line] = [line for line in brain.lines if isinstance(line, str)]
    assert "user:secret" not in line
    return line


def test_a_port_in_use_is_refused_by_its_number(home):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = refusal(BrainProcess(f"sqlite:///{home / 'store.db'}", port=port))
    assert str(port) in line
    assert not (home / "store.db").exists()


def test_a_database_that_is_not_there_is_refused(home):
    line = refusal(BrainProcess(f"mysql://user:secret@127.0.0.1:{free_port()}/convoy"))
    assert "CONVOY_DATABASE_URL" in line


def test_other_machines_are_not_served_without_a_token(home):
    brain = BrainProcess(f"sqlite:///{home / 'store.db'}", CONVOY_BRAIN_HOST="0.0.0.0", CONVOY_BRAIN_TOKEN="")
    assert "CONVOY_BRAIN_TOKEN" in refusal(brain)


def test_a_database_that_is_away_is_waited_for_as_long_as_asked(home):
    begun = time.monotonic()
    url = f"mysql://user:secret@127.0.0.1:{free_port()}/convoy"
    brain = BrainProcess(url, CONVOY_DATABASE_WAIT_SECONDS="2")
    brain.event("waiting for the database")
    assert brain.wait(15) == 2
    assert time.monotonic() - begun >= 2
    waiting = BrainProcess(url, CONVOY_DATABASE_WAIT_SECONDS="600")
    waiting.event("waiting for the database")
    assert waiting.end() == 0
