"""Resets, gaps, ends and beginnings of counters, in a history that a real Prometheus evaluates."""

import pytest

from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import Node, NodeLoad, RollupDue
from support.disposable import disposable_prometheus
from support.openmetrics import History, counting, every

pytestmark = pytest.mark.servers


@pytest.fixture
def store(home):
    """Return the URL of a database on one kind of server: it is Prometheus that is looked at here."""
    url = f"sqlite:///{home / 'one.db'}"
    migrate(url)
    return url


HOUR = 3600
WINDOW = 120
CPU = {"cpu": "0", "mode": "user", "instance": "a:9100", "job": "node"}


def cpu(at, value):
    history = History()
    history.scraped("node_cpu_seconds_total", CPU, at, value)
    return history


@pytest.fixture
def cpu_of(staged, home):
    """Return what collects the CPU of an hour out of a history: cores by seconds since its beginning."""

    def collect(history, until=HOUR):
        with disposable_prometheus(home / "p", history=history.text()) as server:
            stage = staged(server.url)
            stage.collect(-600, until + 600)
            return stage.by_second(NodeLoad, "cpu_cores")

    return collect


def test_a_row_each_step_once_the_window_is_whole_and_none_after_the_end(cpu_of):
    cores = cpu_of(cpu(every(30, HOUR), counting(0.5)))
    assert list(cores) == list(every(30, HOUR + 30, since=WINDOW))
    assert list(cores.values()) == pytest.approx([0.5] * len(cores))


def test_a_counter_that_begins_anew_gives_neither_less_than_nothing_nor_a_leap(cpu_of):
    """What was used between the last scrape and the reset is lost: at most a scrape of the four in a window."""
    cores = cpu_of(cpu(every(30, HOUR), counting(0.5, start=1e6, reset_at=1800)))
    assert len(cores) == (HOUR + 30 - WINDOW) / 30 + 1
    touched = {second: value for second, value in cores.items() if 1800 <= second < 1800 + WINDOW}
    assert list(touched.values()) == pytest.approx([0.375] * 4)
    others = [value for second, value in cores.items() if second not in touched]
    assert others == pytest.approx([0.5] * len(others))


def test_a_gap_gives_no_rows_until_a_window_is_whole_again(cpu_of):
    """Prometheus itself was away: nothing is marked stale, and its last samples would be taken for those of now."""
    scrapes = [second for second in every(30, HOUR) if not 1200 < second < 1800]
    cores = cpu_of(cpu(scrapes, counting(0.5)))
    absent = set(every(30, HOUR, since=WINDOW)) - set(cores)
    assert absent == set(every(30, 1800 + WINDOW - 30, since=1260))
    assert list(cores.values()) == pytest.approx([0.5] * len(cores))


def test_one_missed_scrape_is_bridged(cpu_of):
    cores = cpu_of(cpu([second for second in every(30, HOUR) if second != 1200], counting(0.5)))
    assert {1170, 1200, 1230, 1290, 1350} <= set(cores)
    assert cores[1230] == pytest.approx(0.5)


def test_memory_is_that_of_now_and_never_an_old_one(staged, home):
    history, scrapes = History(), [second for second in every(30, HOUR) if not 1200 < second < 1800]
    labels = {"instance": "a:9100", "job": "node"}
    history.scraped("node_memory_MemTotal_bytes", labels, scrapes, lambda _: 2**33)
    history.scraped("node_memory_MemAvailable_bytes", labels, scrapes, lambda second: 2**33 - 2**20 * second)
    with disposable_prometheus(home / "p", history=history.text()) as server:
        stage = staged(server.url)
        stage.collect(0, HOUR)
        memory = stage.by_second(NodeLoad, "memory_bytes")
    assert set(every(30, HOUR)) - set(memory) == set(every(30, 1770, since=1260))
    assert {second: value for second, value in memory.items() if second != 1230} == {
        second: 2**20 * second for second in memory if second != 1230
    }
    assert memory[1230] == 2**20 * 1200  # the scrape of 1230 may be late: within one and a half intervals it counts


def test_devices_add_up_and_what_lies_on_top_of_them_does_not(staged, home):
    history = History()
    rates = {"eth0": 100.0, "eth1": 10.0, "lo": 1e6, "bond0": 1e6, "veth1a2b": 1e6, "eth0.100": 1e6, "docker0": 1e6}
    for device, rate in rates.items():
        labels = {"instance": "a:9100", "job": "node", "device": device}
        history.scraped("node_network_receive_bytes_total", labels, every(30, 600), counting(rate))
        history.scraped("node_network_transmit_bytes_total", labels, every(30, 600), counting(2 * rate))
    for device, rate in {"sda": 1000.0, "nvme0n1": 1.0, "dm-0": 1e6, "md0": 1e6, "loop3": 1e6}.items():
        labels = {"instance": "a:9100", "job": "node", "device": device}
        history.scraped("node_disk_read_bytes_total", labels, every(30, 600), counting(rate))
        history.scraped("node_disk_written_bytes_total", labels, every(30, 600), counting(3 * rate))
    with disposable_prometheus(home / "p", history=history.text()) as server:
        stage = staged(server.url)
        tally = stage.collect(300, 600)
    assert (tally.moments, tally.nodes) == (11, 11)
    for row in stage.rows(NodeLoad):
        measured = (row.network_received, row.network_sent, row.disk_read, row.disk_written)
        assert measured == pytest.approx((110.0, 220.0, 1001.0, 3003.0))
        assert (row.seconds, row.cpu_cores, row.accelerator_busy) == (30.0, None, None)


def test_machines_are_called_by_their_names_and_their_hours_are_due(staged, home):
    history = History()
    for instance, labels in (("10.0.0.7:9100", {}), ("c:9100", {}), ("10.0.0.9:9100", {"node": "d"})):
        of = {"instance": instance, "job": "node", **labels}
        history.scraped("node_cpu_seconds_total", {**of, "cpu": "0", "mode": "user"}, every(30, 600), counting(1.0))
        history.scraped("node_cpu_seconds_total", {**of, "cpu": "0", "mode": "idle"}, every(30, 600), counting(7.0))
    uname = {"instance": "10.0.0.7:9100", "job": "node", "nodename": "b"}
    history.scraped("node_uname_info", uname, every(30, 600), lambda _: 1.0)
    gpu = {"instance": "172.16.0.1:9400", "job": "dcgm", "Hostname": "d"}
    for number, busy in (("0", 100.0), ("1", 50.0)):
        history.scraped("DCGM_FI_DEV_GPU_UTIL", {**gpu, "gpu": number}, every(30, 600), lambda _, busy=busy: busy)
        history.scraped("DCGM_FI_DEV_FB_USED", {**gpu, "gpu": number}, every(30, 600), lambda _: 1024.0)
    with disposable_prometheus(home / "p", history=history.text()) as server:
        stage = staged(server.url)
        stage.collect(600, 600)
    names = {row.id: row.name for row in stage.rows(Node)}
    assert sorted(names.values()) == ["b", "c", "d"]
    loads = {names[row.node_id]: row for row in stage.rows(NodeLoad)}
    assert [loads[name].cpu_cores for name in "bcd"] == pytest.approx([1.0] * 3)
    assert (loads["d"].accelerator_busy, loads["d"].accelerator_memory) == (pytest.approx(1.5), 2**31)
    assert loads["b"].accelerator_busy is None
    assert {(row.series, row.subject_id) for row in stage.rows(RollupDue)} == {("node_load", one) for one in names}
