"""What a real Prometheus scrapes just now: this machine, a busy process, and metrics that begin anew and vanish."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from convoy.brain.ingest.prometheus.grid import Span
from convoy.brain.ingest.prometheus.queries import load
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import JobNodeLoad, Node, NodeLoad
from support.disposable import disposable_prometheus
from support.exporter import scraped
from support.openmetrics import BEGIN
from support.waiting import until

pytestmark = pytest.mark.servers


@pytest.fixture
def told(home):
    """Return the queries with another interval between scrapes: each second Prometheus scrapes here."""

    def queries(scrape_interval):
        file = home / "queries.toml"
        file.write_text(f'scrape_interval = "{scrape_interval}"\n')
        return load(file)

    return queries


@pytest.fixture
def store(home):
    """Return the URL of a database on one kind of server: it is Prometheus that is looked at here."""
    url = f"sqlite:///{home / 'one.db'}"
    migrate(url)
    return url


def collect(stage, since, until_moment):
    """Collect second by second; both ends are seconds since the epoch."""
    stage.collect(since - BEGIN, until_moment - BEGIN, step=1)


def watched(seconds, look, each=0.2):
    """Call ``look`` a few times a second; return what it gave, by the time."""
    seen, end = {}, time.time() + seconds
    while time.time() < end:
        seen[time.time()] = look()
        time.sleep(each)
    return seen


def mean_rate(counts, begin, end):
    """Return the growth a second between two moments of a counter that was looked at now and then."""
    first = min(counts, key=lambda moment: abs(moment - begin))
    last = min(counts, key=lambda moment: abs(moment - end))
    return (counts[last] - counts[first]) / (last - first)


def used_cores():
    times = psutil.cpu_times()
    return times.user + times.nice + times.system + times.irq + times.softirq


def test_this_machine_and_a_busy_pod_are_as_the_kernel_says(staged, told, job_of, home):
    job = job_of("job-1", ["j-worker-0"], cluster="")
    labels = 'namespace="team",pod="j-worker-0",container="main"'
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    process = psutil.Process(busy.pid)
    try:
        with (
            disposable_prometheus(home / "p", exporter=True) as server,
            scraped(server.targets, "", job="kubelet", labels={"node": "a"}) as exporter,
        ):

            def look():
                cpu = sum(process.cpu_times()[:2])
                exporter.text = f"container_cpu_usage_seconds_total{{{labels}}} {cpu}\n"
                memory = psutil.virtual_memory()
                return cpu, used_cores(), memory.total - memory.available

            until(lambda: look() and exporter.scrapes, "the first scrape", timeout=20.0, every=0.2)
            seen = watched(17.0, look)
            stage = staged(server.url, queries=told("3s"))
            last = int(stage.prometheus.now()) - 1
            collect(stage, last - 1, last)
    finally:
        busy.kill()
        busy.wait()
    assert [row.name for row in stage.rows(Node)] == [os.uname().nodename]
    window = stage.queries.window(1)
    rows = stage.rows(NodeLoad)
    assert rows
    for row in rows:
        end = row.ended_at.timestamp()
        assert row.cpu_cores == pytest.approx(
            mean_rate({at: one for at, (_, one, _) in seen.items()}, end - window, end), abs=0.35
        )
        memory = [one for at, (_, _, one) in seen.items() if abs(at - end) < 3.0]
        slack = 0.02 * psutil.virtual_memory().total
        assert min(memory) - slack < row.memory_bytes < max(memory) + slack
        assert None not in (row.network_received, row.network_sent, row.disk_read, row.disk_written)
    pods = stage.rows(JobNodeLoad)
    assert {(row.job_id, row.node) for row in pods} == {(job, "j-worker-0")}
    for row in pods:
        end = row.ended_at.timestamp()
        truly = mean_rate({at: one for at, (one, _, _) in seen.items()}, end - window, end)
        assert row.cpu_cores == pytest.approx(truly, abs=0.2)
        assert 0.05 < truly < 1.1  # a core, or what others on the machine leave of it


@pytest.mark.long
def test_a_counter_that_begins_anew_vanishes_and_comes_back(staged, told, home):
    labels = 'device="sda",node="a"'
    with (
        disposable_prometheus(home / "p") as server,
        scraped(server.targets, "", job="node") as exporter,
    ):

        def counting_since(begin):
            exporter.text = f"node_disk_read_bytes_total{{{labels}}} {1000 * (time.time() - begin)}\n"

        until(lambda: exporter.scrapes, "the first scrape", timeout=20.0)
        began = time.time()
        watched(9.0, lambda: counting_since(began - 1e6))
        anew = time.time()
        watched(7.0, lambda: counting_since(anew))
        vanished = time.time()
        exporter.text = ""
        time.sleep(4.0)
        back = time.time()
        watched(8.0, lambda: counting_since(anew))
        stage = staged(server.url, queries=told("1s"))
        last = int(stage.prometheus.now()) - 1
        collect(stage, int(began), last)
    read = {row.ended_at.timestamp(): row.disk_read for row in stage.rows(NodeLoad)}
    assert min(read.values()) > 0
    assert max(read.values()) < 1500  # no leap, up or down
    assert [moment for moment in read if moment < anew]
    assert [moment for moment in read if anew + 5 < moment < vanished]
    assert not [moment for moment in read if vanished + 1.5 < moment < back + 3]
    assert [moment for moment in read if back + 5 < moment]


def test_what_is_marked_stale_gives_no_row_though_its_last_sample_is_young(staged, told, home):
    text = "node_memory_MemTotal_bytes 1000\nnode_memory_MemAvailable_bytes 400\n"
    with disposable_prometheus(home / "p") as server:
        with scraped(server.targets, text, job="node", labels={"node": "a"}) as exporter:
            until(lambda: exporter.scrapes > 2, "the first scrapes", timeout=20.0)
            stage = staged(server.url, queries=told("30s"))
            began = stage.prometheus.now()
            time.sleep(2.0)
            exporter.text = ""
            vanished = time.time()
            until(lambda: stage.prometheus.now() > vanished + 5.0, "time to pass")
            last = int(stage.prometheus.now())
            collect(stage, int(began), last)
        assert last - vanished < stage.queries.fresh()
    memory = {row.ended_at.timestamp(): row.memory_bytes for row in stage.rows(NodeLoad)}
    assert set(memory.values()) == {600}
    assert max(memory) < vanished + 2.5


def test_spans_of_the_future_give_nothing(staged, told, home):
    with disposable_prometheus(home / "p", exporter=True) as server:
        stage = staged(server.url, queries=told("3s"))
        now = int(stage.prometheus.now())
        assert len(Span.within(now + 3600, now + 3660, 30)) > 0
        collect(stage, now + 3600, now + 3660)
    assert stage.rows(NodeLoad) == []
