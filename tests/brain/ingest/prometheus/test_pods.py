"""Load of jobs' pods: cAdvisor's and DCGM's metrics in a history that a real Prometheus evaluates."""

import pytest

from convoy.brain.ingest.prometheus.rows import ended_at
from convoy.brain.store.tables import JobNodeLoad, RollupDue
from support.disposable import disposable_prometheus
from support.openmetrics import BEGIN, History, counting, every

pytestmark = pytest.mark.servers

SCRAPES = every(30, 900)


def containers(history, pod, rates, *, namespace="team", scrapes=SCRAPES, node="a"):
    """Add a pod as cAdvisor shows it: its containers, and its network in a series of no container."""
    of = {"namespace": namespace, "pod": pod, "instance": f"{node}:10250", "job": "kubelet", "node": node}
    for name, rate in rates.items():
        container = {**of, "container": name, "id": f"/kubepods/{pod}/{name}"}
        began = scrapes[0]
        history.scraped(
            "container_cpu_usage_seconds_total",
            container,
            scrapes,
            lambda at, began=began, rate=rate: rate * (at - began),
        )
        history.scraped("container_memory_working_set_bytes", container, scrapes, lambda _, rate=rate: rate * 2**30)
        for way, factor in (("reads", 1.0), ("writes", 2.0)):
            disk = {**container, "device": "/dev/sda"}
            history.scraped(f"container_fs_{way}_bytes_total", disk, scrapes, counting(factor * 1000 * rate))
    pause = {**of, "id": f"/kubepods/{pod}", "container": "", "interface": "eth0"}
    for way, factor in (("receive", 1.0), ("transmit", 2.0)):
        history.scraped(f"container_network_{way}_bytes_total", pause, scrapes, counting(factor * 100))
    history.scraped("container_cpu_usage_seconds_total", pause, scrapes, counting(99.0))  # the whole pod's group


def gpus(history, labels, busy):
    for gpu, value in enumerate(busy):
        of = {**labels, "gpu": str(gpu), "Hostname": "a", "instance": "172.16.0.1:9400", "job": "dcgm"}
        history.scraped("DCGM_FI_DEV_GPU_UTIL", of, SCRAPES, lambda _, value=value: value)
        history.scraped("DCGM_FI_DEV_FB_USED", of, SCRAPES, lambda _: 2048.0)


@pytest.fixture
def stage_on(staged, home):
    """Return what collects from second 600 on out of a history, and gives the stage with its tally."""

    def collect(history, since=600, until=900):
        with disposable_prometheus(home / "p", history=history.text()) as server:
            stage = staged(server.url)
            return stage, stage.collect(since, until)

    return collect


def test_a_pod_is_the_sum_of_its_containers_and_has_its_jobs_role_rank_and_allotment(stage_on, job_of):
    job = job_of("job-1", ["j-worker-0", "j-worker-1"], cpu_allotted=4.0, memory_allotted=2**34)
    history = History()
    containers(history, "j-worker-1", {"main": 1.5, "sidecar": 0.25})
    gpus(
        history,
        {"exported_namespace": "team", "exported_pod": "j-worker-1", "namespace": "gpu", "pod": "dcgm-x"},
        [80.0, 40.0],
    )
    stage, tally = stage_on(history)
    assert (tally.moments, tally.pods) == (11, 11)
    for row in stage.rows(JobNodeLoad):
        assert (row.job_id, row.node, row.source, row.seconds) == (job, "j-worker-1", "prometheus", 30.0)
        assert (row.role, row.rank, row.round, row.cpu_allotted, row.memory_allotted) == ("worker", 1, 0, 4.0, 2**34)
        assert (row.cpu_cores, row.memory_bytes) == (pytest.approx(1.75), 1.75 * 2**30)
        assert (row.network_received, row.network_sent) == pytest.approx((100.0, 200.0))
        assert (row.disk_read, row.disk_written) == pytest.approx((1750.0, 3500.0))
        assert (row.accelerator_busy, row.accelerator_memory) == (pytest.approx(1.2), 2**32)
    assert [(row.series, row.subject_id) for row in stage.rows(RollupDue) if row.series == "job_node_load"] == [
        ("job_node_load", job)
    ]


def test_while_a_container_is_younger_than_the_window_the_pods_cores_are_not_known(stage_on, job_of):
    """A container that was started again is a series of its own: the sum over the others would be too small."""
    job_of("job-1", ["j-worker-0"])
    history = History()
    containers(history, "j-worker-0", {"main": 2.0}, scrapes=every(30, 600))
    containers(history, "j-worker-0", {"main-again": 2.0, "late": 1.0}, scrapes=every(30, 900, since=630))
    stage, _ = stage_on(history, since=570)
    cores = stage.by_second(JobNodeLoad, "cpu_cores")
    assert cores[600] == pytest.approx(2.0)
    assert [cores[second] for second in every(30, 720, since=630)] == [None] * 4
    assert cores[780] == pytest.approx(3.0)
    memory = stage.by_second(JobNodeLoad, "memory_bytes")
    assert (memory[570], memory[900]) == (2 * 2**30, 3 * 2**30)
    assert None not in memory.values()


def test_pods_of_no_known_job_are_counted_and_left_out(stage_on, job_of):
    job = job_of("job-1", ["j-worker-0"])
    job_of("job-elsewhere", ["j-worker-1"], cluster="another")
    history = History()
    containers(history, "j-worker-0", {"main": 1.0})
    containers(history, "j-worker-0", {"main": 1.0}, namespace="other-team")
    containers(history, "j-worker-1", {"main": 1.0})
    containers(history, "coredns-5d78c", {"coredns": 0.1}, namespace="kube-system")
    stage, tally = stage_on(history)
    assert {(row.job_id, row.node) for row in stage.rows(JobNodeLoad)} == {(job, "j-worker-0")}
    assert {(pod.namespace, pod.name) for pod in tally.strangers} == {
        ("other-team", "j-worker-0"),
        ("team", "j-worker-1"),
        ("kube-system", "coredns-5d78c"),
    }
    assert tally.sentences() == [
        "11 moments: 0 rows of machines stored, 0 there already; 11 rows of pods stored, 0 there already",
        "3 pods belong to no job that the store knows, and aren't stored (kube-system/coredns-5d78c, for one)",
    ]


def test_rows_of_pods_that_are_there_already_are_told_from_those_that_were_stored(staged, home, job_of):
    job_of("job-1", ["j-worker-0", "j-worker-1"])
    history = History()
    for pod in ("j-worker-0", "j-worker-1"):
        containers(history, pod, {"main": 1.0})
    with disposable_prometheus(home / "p", history=history.text()) as server:
        stage = staged(server.url)
        first, second = stage.collect(600, 720), stage.collect(660, 900)
    assert (first.pods, first.pods_before) == (10, 0)
    assert (second.pods, second.pods_before) == (12, 6)
    assert len(stage.rows(JobNodeLoad)) == 22


def test_a_name_that_two_jobs_had_is_each_ones_in_its_time(stage_on, job_of):
    first = job_of("job-1", ["j-worker-0"], ended_at=ended_at(BEGIN + 500))
    second = job_of("job-2", ["j-worker-0"], since=700, created_at=ended_at(BEGIN + 700))
    history = History()
    containers(history, "j-worker-0", {"main": 1.0})
    stage, tally = stage_on(history, since=300)
    of = {int(row.ended_at.timestamp()) - BEGIN: row.job_id for row in stage.rows(JobNodeLoad)}
    assert {at for at, job in of.items() if job == first} == set(every(30, 480, since=300))
    assert {at for at, job in of.items() if job == second} == set(every(30, 900, since=720))
    assert (tally.strangers, len(tally.outside)) == (frozenset(), 1)  # in between it was nobody's


def test_a_known_pod_with_samples_of_before_its_time_is_not_told_as_unknown(stage_on, job_of):
    job_of("job-1", ["j-worker-0"], since=750, created_at=ended_at(BEGIN + 750))
    history = History()
    containers(history, "j-worker-0", {"main": 1.0})
    containers(history, "coredns", {"main": 1.0}, namespace="kube-system")
    _, tally = stage_on(history)
    assert tally.sentences() == [
        "11 moments: 0 rows of machines stored, 0 there already; 6 rows of pods stored, 0 there already",
        "1 pod belongs to no job that the store knows, and isn't stored (kube-system/coredns, for one)",
        "1 pod of known jobs has samples of before the first sign or after the end that the store knows of, and "
        "those aren't stored (team/j-worker-0, for one)",
    ]


def test_a_pod_that_two_jobs_of_prometheus_scrape_counts_once(stage_on, job_of):
    job_of("job-1", ["j-worker-0"], namespace="prod")
    history = History()
    for scrape in ("kubelet", "kubelet-again"):
        of = {"namespace": "prod", "pod": "j-worker-0", "container": "main", "instance": "a:10250", "job": scrape}
        history.scraped("container_cpu_usage_seconds_total", of, SCRAPES, counting(1.0))
    stage, tally = stage_on(history)
    assert list(stage.by_second(JobNodeLoad, "cpu_cores").values()) == pytest.approx([1.0] * 11)
    assert tally.dropped == {("pod.cpu_cores", "of a second series of the same machine or pod"): 11}


def test_gpus_that_no_pod_uses_are_their_machines_alone(stage_on, job_of):
    job_of("job-1", ["j-worker-0"])
    history = History()
    gpus(history, {}, [10.0])
    stage, tally = stage_on(history)
    assert (tally.nodes, tally.pods, tally.strangers, dict(tally.dropped)) == (11, 0, frozenset(), {})
    assert not [finding for finding, _ in stage.findings if "accelerator" in finding.message]
