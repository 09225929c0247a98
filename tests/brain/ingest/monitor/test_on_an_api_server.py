"""The monitor over a real API server: all kinds while they change, outages, and what happened while none ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from convoy.brain.ingest.monitor.monitor import Monitor
from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import Cluster, Job, JobEvent, JobNode, Node, NodeEvent, ScalePlan
from convoy.core.api.errors import Unusable
from convoy.core.cluster.kubernetes import KubernetesReader
from convoy.core.cluster.kubernetes.connection import Limits
from servers.api_server import ApiServer
from support import cluster_objects as objects
from support.disposable import disposable_api_server
from support.monitored import Live, monitored
from support.raw_objects import raw_objects
from support.waiting import until

pytestmark = pytest.mark.servers

QUICK = Limits(connect=1.0, answer=1.5, silence=1.0)

Open = Callable[[], KubernetesReader]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with disposable_api_server(tmp_path_factory.mktemp("api-server")) as started:
        yield started


@pytest.fixture
def live(server: ApiServer) -> Iterator[Live]:
    with raw_objects(server.kubeconfig) as hands:
        yield Live(hands)
        hands.clear()


@pytest.fixture
def reach(server: ApiServer) -> Open:
    """Return what opens a reader of the cluster."""
    return lambda: KubernetesReader.open(server.kubeconfig, limits=QUICK)


def rows(engine: Engine, table: type[Any], **wanted: Any) -> list[Any]:
    query = sa.select(table).filter_by(**wanted).order_by(table.id)
    with reading(engine) as connection:
        return list(connection.execute(query))


def settled(monitor: Monitor) -> None:
    until(monitor.settled, "all that is there to be stored", timeout=20)


class TestKinds:
    def test_all_that_is_there_and_all_that_changes(self, engine: Engine, live: Live, reach: Open) -> None:
        live.put(objects.node())
        job = live.put(objects.job(phase="Pending", metadata__labels={"user": "ada"}))
        pod = live.put(objects.pod(job, node="n1"))
        live.put(objects.event(pod, "Scheduled"))
        with monitored(engine, reach()) as monitor:
            settled(monitor)
            (stored,) = rows(engine, Job)
            assert (stored.uid, stored.user, stored.state) == (job["metadata"]["uid"], "ada", "Waiting")
            (machine,) = rows(engine, Node)
            assert (machine.cpu_allocatable, machine.accelerators_capacity, machine.ready) == (7.91, 2.0, True)
            assert stored.node_type == machine.node_type == "a2-highgpu-2g"
            assert [row.reason for row in rows(engine, JobEvent)] == ["Scheduled"]

            live.say(job, phase="Running")
            live.say(pod, **objects.running())
            plan = live.put(objects.plan(job))
            live.put(objects.event(job, "JobRunning"))
            live.put(objects.event(objects.node(), "NodeHasDiskPressure"))
            until(lambda: rows(engine, NodeEvent), "the machine's event")
            until(lambda: rows(engine, JobEvent, reason="JobRunning"), "the job's event")
            until(lambda: rows(engine, ScalePlan), "the plan")
            until(lambda: rows(engine, Job, state="Running") and rows(engine, JobNode, phase="Running"), "they run")

            live.say(pod, **objects.ended("OOMKilled", 137))
            live.say(plan, phase="Succeeded")
            until(lambda: rows(engine, JobNode, reason="OOMKilled", exit_code=137), "the pod's end")
            until(lambda: rows(engine, ScalePlan, phase="Succeeded"), "the plan's end")
            live.drop(pod)
            live.drop(job)
            live.drop(plan)
            live.drop(objects.node())
            for table in (JobNode, Job, ScalePlan, Node):
                until(lambda table=table: rows(engine, table)[0].gone_at, f"{table.__tablename__} to be gone")
            assert rows(engine, JobNode)[0].reason == "OOMKilled"

    def test_only_pods_of_jobs_and_their_events(self, engine: Engine, live: Live, reach: Open) -> None:
        job = live.put(objects.job())
        other = objects.pod(job, 1)
        other["metadata"]["labels"] = {"app": "web"}
        live.put(objects.event(live.put(other), "Pulled"))
        live.put(objects.pod(job, 2))
        with monitored(engine, reach()) as monitor:
            settled(monitor)
            assert [row.name for row in rows(engine, JobNode)] == ["job-edljob-worker-2"]
            assert monitor.report()["waiting"] == 1  # the event: its pod might still be told
            assert rows(engine, JobEvent) == []

    def test_namespaces_may_be_named(self, engine: Engine, live: Live, reach: Open) -> None:
        for namespace in ("team-a", "team-b", "team-c"):
            live.put(objects.pod(live.put(objects.job(namespace=namespace))))
        with monitored(engine, reach(), namespaces=["team-a", "team-c"]) as monitor:
            settled(monitor)
            assert {row.namespace for row in rows(engine, Job)} == {"team-a", "team-c"}
            assert len(rows(engine, JobNode)) == 2
        with monitored(engine, reach(), namespaces=["team-b"]) as monitor:
            settled(monitor)
            assert [row.gone_at for row in rows(engine, Job)] == [None, None, None]

    def test_a_repeated_event_has_a_row_each_time(self, engine: Engine, live: Live, reach: Open) -> None:
        pod = live.put(objects.pod(live.put(objects.job())))
        event = live.put(objects.event(pod, "BackOff"))
        with monitored(engine, reach()) as monitor:
            settled(monitor)
            event = live.hands.replace({**event, "count": 2, "lastTimestamp": "2026-01-31T12:09:00Z"})
            live.hands.replace({**event, "count": 3, "lastTimestamp": "2026-01-31T12:11:00Z"})
            until(lambda: len(rows(engine, JobEvent)) == 3, "three rows")
        assert [row.evidence["count"] for row in rows(engine, JobEvent)] == ["1", "2", "3"]

    def test_an_object_that_makes_no_sense_stops_no_other(self, engine: Engine, live: Live, reach: Open) -> None:
        job = live.put(objects.job())
        stray = objects.pod(job, 1)
        stray["metadata"]["ownerReferences"] = []
        live.put(stray)
        odd = objects.pod(job, 2)
        odd["metadata"]["labels"]["elasticjob.dlrover/rank-index"] = "first"
        live.put(odd)
        live.put(objects.pod(job, 3))
        with monitored(engine, reach()) as monitor:
            settled(monitor)
            assert [(row.name[-1], row.rank) for row in rows(engine, JobNode)] == [("2", None), ("3", 3)]
            assert monitor.tally.counts("left_out") == {"Pod": 1}
            assert monitor.tally.counts("in_part") == {"Pod": 1}


class TestStarts:
    def test_what_went_and_came_while_no_monitor_ran(self, engine: Engine, live: Live, reach: Open) -> None:
        gone = live.put(objects.job("gone", phase="Running"))
        pods = [live.put(objects.pod(gone, number)) for number in range(3)]
        again = live.put(objects.job("again"))
        node = live.put(objects.node())
        plan = live.put(objects.plan(gone))
        with monitored(engine, reach()) as monitor:
            settled(monitor)
        for one in (pods[0], gone, again, node, plan):
            live.drop(one)
        live.say(pods[1], **objects.ended("Error", 1))
        new = live.put(objects.job("again"))
        live.put(objects.node())
        with monitored(engine, reach()) as monitor:
            settled(monitor)
        assert rows(engine, Job, name="gone")[0].gone_at is not None
        assert [row.gone_at is None for row in rows(engine, Job, name="again")] == [False, True]
        assert rows(engine, Job, uid=new["metadata"]["uid"])
        assert [row.gone_at is None for row in rows(engine, JobNode)] == [False, True, True]
        assert rows(engine, JobNode)[1].reason == "Error"
        assert rows(engine, ScalePlan)[0].gone_at is not None
        (machine,) = rows(engine, Node)
        assert (machine.gone_at, machine.uid == node["metadata"]["uid"]) == (None, False)

    def test_two_side_by_side_leave_what_one_leaves(self, engine: Engine, live: Live, reach: Open) -> None:
        live.put(objects.node())
        job = live.put(objects.job(phase="Running"))
        with monitored(engine, reach()) as one, monitored(engine, reach()) as two:
            settled(one)
            settled(two)
            for number in range(20):
                pod = live.put(objects.pod(job, number, node="n1"))
                live.put(objects.event(pod, "Scheduled"))
                live.say(pod, **objects.running())
                if number % 2:
                    live.drop(pod)
            until(lambda: len(rows(engine, JobNode)) == len(rows(engine, JobEvent)) == 20, "all pods and events")
            until(lambda: sum(row.gone_at is None for row in rows(engine, JobNode)) == 10, "half of them gone")
            settled(one)
            settled(two)
        assert [len(rows(engine, table)) for table in (Job, Node, Cluster)] == [1, 1, 1]
        assert {row.phase for row in rows(engine, JobNode)} == {"Running"}

    def test_another_cluster_of_the_name_is_refused(self, engine: Engine, reach: Open) -> None:
        with monitored(engine, reach(), uid="one") as monitor:
            settled(monitor)
        with reach() as reader, pytest.raises(Unusable, match="'here' is in the store already and is another one"):
            Monitor(engine, reader, name="here", close=reader.close, uid="two")
        assert rows(engine, Cluster)[0].uid == "one"


class TestOutages:
    @pytest.fixture
    def engine(self, home: Path) -> Iterator[Engine]:
        """Give a store of one kind: that the cluster is away has nothing to do with it."""
        url = f"sqlite:///{home / 'brain.db'}"
        migrate(url)
        opened = open_engine(url)
        yield opened
        opened.dispose()

    @pytest.fixture
    def server(self, home: Path) -> Iterator[ApiServer]:
        """Give an API server of the test's own, which it may kill and bring back."""
        with disposable_api_server(home / "api-server", flags=["--watch-cache=false"]) as started:
            yield started

    def test_the_api_server_killed_while_things_change(
        self, engine: Engine, server: ApiServer, live: Live, reach: Open
    ) -> None:
        job = live.put(objects.job(phase="Running"))
        first = live.put(objects.pod(job, 0))
        with monitored(engine, reach()) as monitor:
            settled(monitor)
            server.kill()
            until(lambda: not monitor.in_sync(), "the loss to be noticed")
            server.start()
            live.drop(first)
            live.put(objects.pod(job, 1))
            server.compact()
            until(lambda: rows(engine, JobNode)[0].gone_at, "the first to be gone", timeout=20)
            until(lambda: len(rows(engine, JobNode)) == 2, "the second")
            settled(monitor)

    def test_silence(self, engine: Engine, server: ApiServer, live: Live, reach: Open) -> None:
        with monitored(engine, reach()) as monitor:
            settled(monitor)
            server.freeze()
            until(lambda: not monitor.in_sync(), "the silence to be noticed", timeout=20)
            server.thaw()
            live.put(objects.job())
            until(lambda: rows(engine, Job), "the job", timeout=20)
