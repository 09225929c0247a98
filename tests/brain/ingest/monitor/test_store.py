"""What is told becomes rows: in any order, once, and never less than a master told before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from convoy.brain.ingest.reports import Ingest
from convoy.brain.store.engine import writing
from convoy.brain.store.tables import (
    Cluster,
    Job,
    JobEvent,
    JobFeature,
    JobNode,
    Node,
    NodeEvent,
    Recommendation,
    ScalePlan,
)
from convoy.core.api.v1 import brain_pb2
from convoy.core.cluster.port import Kind
from support import cluster_objects as objects
from support import reports
from support.clock import FakeClock
from support.cluster_objects import with_
from support.monitored import START, Told

JOB = objects.job(phase="Running")
NODE = objects.node()
POD = objects.pod(JOB, node="n1", status=objects.running())
PLAN = objects.plan(JOB, phase="Pending")
ALL = (NODE, JOB, POD, PLAN, objects.event(POD, "Pulled"), objects.event(NODE, "NodeReady"))
MADE = datetime(2026, 1, 31, 12, tzinfo=UTC)
TABLES = (Cluster, Node, NodeEvent, Job, JobNode, JobEvent, ScalePlan)


def contents(told: Told, *without: str) -> dict[str, list[dict[str, Any]]]:
    left_out = {"id", "last_seen", *without}
    return {
        table.__tablename__: [
            {name: value for name, value in row._mapping.items() if name not in left_out} for row in told.rows(table)
        ]
        for table in TABLES
    }


class TestAll:
    def test_each_kind_has_its_row(self, told: Told) -> None:
        assert told.tell(*ALL) == []
        job, node, pod, plan = told.row(Job), told.row(Node), told.row(JobNode), told.row(ScalePlan)
        assert (job.uid, job.cluster, job.state, job.first_seen, job.gone_at) == (
            "uid-job",
            "here",
            "Running",
            MADE,
            None,
        )
        assert (node.cluster_id, node.name, node.cpu_allocatable, node.gone_at) == (told.place.id, "n1", 7.91, None)
        assert (pod.job_id, pod.node_id, pod.phase, pod.gone_at) == (job.id, node.id, "Running", None)
        assert (plan.job_id, plan.uid, plan.phase, plan.workers_after) == (
            job.id,
            "uid-job-scaleplan-0",
            "Pending",
            3,
        )
        assert (told.row(JobEvent).job_id, told.row(JobEvent).node) == (job.id, pod.name)
        assert told.row(NodeEvent).node_id == node.id

    @pytest.mark.parametrize("order", [ALL[::-1], (POD, PLAN, JOB, NODE, *ALL[4:]), (PLAN, POD, NODE, JOB, *ALL[4:])])
    def test_they_may_come_one_by_one_in_any_order(self, told: Told, order: tuple[dict[str, Any], ...]) -> None:
        waiting = [one for manifest in order for one in told.tell(manifest)]
        assert all(entry.kind is Kind.EVENT for entry in waiting)
        told.tell(*ALL[4:])
        one_by_one = contents(told)
        with writing(told.engine) as connection:
            for table in (JobEvent, NodeEvent, JobNode, ScalePlan, Job, Node):
                connection.execute(sa.delete(table))
        told.tell(*ALL)
        # Of a machine that was told after its pods, the first sign is that of the pods.
        assert contents(told, "first_seen", "created_at", "node_id", "job_id") == {
            table: [
                {
                    name: value
                    for name, value in row.items()
                    if name not in ("first_seen", "created_at", "node_id", "job_id")
                }
                for row in rows
            ]
            for table, rows in one_by_one.items()
        }

    def test_told_again_nothing_is_written_but_that_they_were_seen(
        self, told: Told, writes: Callable[[], list[str]]
    ) -> None:
        told.tell(*ALL)
        before = contents(told)
        writes()
        told.tell(*ALL)
        assert contents(told) == before
        assert set(writes()) <= {"node", "job", "job_event", "node_event", "cluster"}

    def test_two_monitors_leave_what_one_leaves(self, told: Told) -> None:
        other = Told(told.engine)
        for batch in (ALL[:2], ALL[2:4], ALL[4:]):
            told.tell(*batch)
            other.tell(*batch)
        once = contents(told)
        other.tell(*ALL)
        assert contents(told) == once


class TestGone:
    def test_a_deletion_that_was_watched(self, told: Told) -> None:
        told.tell(*ALL)
        told.tell(with_(POD, "status", objects.ended("OOMKilled", 137)), JOB, PLAN, NODE, change="DELETED")
        pod = told.row(JobNode)
        assert (pod.reason, pod.exit_code) == ("OOMKilled", 137)
        assert {row.gone_at for row in (pod, told.row(Job), told.row(ScalePlan), told.row(Node))} == {told.now}

    def test_a_deletion_that_nobody_watched_keeps_what_was_known(self, told: Told) -> None:
        told.tell(*ALL)
        told.forget(POD, JOB, PLAN, NODE)
        pod = told.row(JobNode)
        assert (pod.phase, pod.gone_at) == ("Running", told.now)
        assert {told.row(table).gone_at for table in (Job, ScalePlan, Node)} == {told.now}

    def test_who_found_it_first_counts(self, told: Told) -> None:
        told.tell(JOB)
        told.forget(JOB)
        first = told.now
        told.forget(JOB)
        told.tell(JOB, change="DELETED")
        assert told.row(Job).gone_at == first

    def test_what_is_there_is_not_gone(self, told: Told) -> None:
        told.tell(JOB)
        told.forget(JOB)
        told.tell(JOB)
        assert told.row(Job).gone_at is None

    def test_what_was_never_told_leaves_no_row(self, told: Told) -> None:
        told.forget(POD, JOB, NODE, PLAN)
        assert [told.rows(table) for table in (JobNode, Job, Node, ScalePlan)] == [[]] * 4

    def test_a_jobs_and_a_machines_place_holders_count_as_gone_until_they_are_told(self, told: Told) -> None:
        told.tell(POD)
        job, node = told.row(Job), told.row(Node)
        assert (job.uid, job.name, job.gone_at, node.name, node.gone_at) == (
            "uid-job",
            "job",
            told.now,
            "n1",
            told.now,
        )
        assert told.known(Kind.ELASTIC_JOB) == told.known(Kind.NODE) == []


class TestNamesThatComeBack:
    def test_a_job_of_the_same_name_is_another_row(self, told: Told) -> None:
        told.tell(JOB)
        told.tell(JOB, change="DELETED")
        told.tell(objects.job(uid="uid-2", phase="Pending"))
        first, second = told.rows(Job)
        assert (first.state, first.gone_at is None) == ("Running", False)
        assert (second.uid, second.state, second.gone_at) == ("uid-2", "Waiting", None)

    def test_a_pod_of_the_same_name_takes_the_row(self, told: Told) -> None:
        old = objects.pod(JOB, uid="old", node="n1", status=objects.ended("Error", 1))
        new = with_(objects.pod(JOB, uid="new"), "metadata.creationTimestamp", "2026-01-31T14:00:00Z")
        told.tell(old, JOB)
        told.forget(old)
        told.tell(new)
        row = told.row(JobNode)
        assert (row.uid, row.phase, row.exit_code, row.ended_at, row.gone_at) == ("new", "Pending", None, None, None)
        told.tell(old)  # late, by a monitor that was cut off
        assert told.row(JobNode).uid == "new"
        told.forget(old)
        assert told.row(JobNode).gone_at is None

    def test_both_in_one_batch(self, told: Told) -> None:
        told.tell(NODE)
        new = objects.node(uid="uid-new")
        told.now += timedelta(seconds=1)
        told.tell(with_(NODE, "spec.unschedulable", True), change="DELETED")
        told.tell(new)
        row = told.row(Node)
        assert (row.uid, row.schedulable, row.gone_at) == ("uid-new", True, None)
        told.tell(NODE, change="DELETED")
        assert told.row(Node).gone_at is None


class TestStates:
    def test_a_job_that_is_over_stays_so(self, told: Told) -> None:
        told.tell(with_(objects.job(phase="Succeeded"), "status.completionTime", "2026-01-31T15:00:00Z"))
        ended = told.row(Job)
        assert ended.last_seen == datetime(2026, 1, 31, 15, tzinfo=UTC)
        told.tell(JOB)
        assert (told.row(Job).state, told.row(Job).last_seen) == ("Succeeded", ended.last_seen)

    def test_a_running_jobs_last_sign_moves_on(self, told: Told) -> None:
        told.tell(JOB)
        told.tell(JOB)
        assert told.row(Job).last_seen == told.now

    def test_a_pods_reason_to_wait_goes_when_it_runs(self, told: Told) -> None:
        unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        told.tell(JOB, objects.pod(JOB, status={"phase": "Pending", "conditions": [unplaced]}))
        assert told.row(JobNode).reason == "Unschedulable"
        told.tell(POD)
        assert (told.row(JobNode).phase, told.row(JobNode).reason) == ("Running", "")


class TestWhatIsKnownOfMachines:
    def test_a_job_learns_on_what_its_workers_run(self, told: Told) -> None:
        told.tell(NODE, JOB, POD)
        assert (told.row(Job).node_type, told.row(Job).accelerator) == ("a2-highgpu-2g", "NVIDIA-A100-SXM4-40GB")

    def test_not_from_its_master_and_no_accelerator_that_it_didnt_ask_for(self, told: Told) -> None:
        master = objects.pod(JOB, 7, node="n1", role="dlrover-master")
        told.tell(NODE, JOB, master)
        assert told.row(Job).node_type == ""
        told.tell(with_(POD, "spec.containers.0.resources", {"requests": {"cpu": "1"}}))
        assert (told.row(Job).node_type, told.row(Job).accelerator) == ("a2-highgpu-2g", "")


class TestBesideMasters:
    def test_what_a_master_told_stays(self, told: Told) -> None:
        ingest = Ingest(told.engine, FakeClock(START.timestamp()))
        description = reports.job("uid-job", "job")
        description.image, description.template = "told-by-master", "key-by-master"
        outcome = brain_pb2.PlanOutcome(
            plan="job-scaleplan-0",
            created=START.timestamp(),
            workers_before=2,
            workers_after=4,
            predicted=900.0,
            reason="Explored",
        )
        load = reports.load(1, POD["metadata"]["name"])
        load.time, load.memory_allotted = START.timestamp(), 1 << 30
        report = brain_pb2.BrainReport(job=description, plans=[outcome], load=[load])
        ingest.store(reports.envelope(1, uid="uid-job"), report)
        bare_job = with_(JOB, "spec.replicaSpecs.worker.template.spec.containers", [])
        told.tell(bare_job, PLAN, with_(POD, "spec.containers.0.resources", {}))
        job, plan, pod = told.row(Job), told.row(ScalePlan), told.row(JobNode)
        assert (job.model, job.image, job.template, job.cluster) == ("mlp", "told-by-master", "key-by-master", "here")
        assert (plan.workers_before, plan.workers_after, plan.predicted, plan.reason) == (2, 4, 900.0, "Explored")
        assert (plan.uid, plan.phase) == ("uid-job-scaleplan-0", "Pending")
        assert (pod.uid, pod.phase, pod.cpu_allotted, pod.memory_allotted) == (
            POD["metadata"]["uid"],
            "Running",
            1.0,
            1 << 30,
        )

    def test_a_master_that_reports_later_adds_what_only_it_knows(self, told: Told) -> None:
        told.tell(JOB, PLAN)
        ingest = Ingest(told.engine, FakeClock(START.timestamp()))
        outcome = brain_pb2.PlanOutcome(
            plan="job-scaleplan-0", created=START.timestamp(), workers_before=2, workers_after=3, realized=800.0
        )
        report = brain_pb2.BrainReport(job=reports.job("uid-job", "job"), plans=[outcome])
        ingest.store(reports.envelope(1, uid="uid-job"), report)
        told.tell(JOB, PLAN)
        job, plan = told.row(Job), told.row(ScalePlan)
        assert (job.model, plan.realized, plan.workers_before) == ("mlp", 800.0, 2)
        assert (plan.uid, plan.phase) == ("uid-job-scaleplan-0", "Pending")

    def test_a_recommendation_is_named_only_where_it_is_stored(self, told: Told) -> None:
        unknown = with_(PLAN, "spec.explanation.recommendation", "r-1")
        told.tell(JOB, unknown)
        assert told.row(ScalePlan).recommendation_id is None
        with writing(told.engine) as connection:
            values = {column.name: 0 for column in Recommendation.__table__.columns if not column.nullable}
            values |= {"id": "r-1", "job_id": told.row(Job).id, "made_at": START}
            values |= dict.fromkeys(("stage", "decision", "reason", "message", "currency"), "x")
            values |= {"options": [], "request": {}, "evidence": {}}
            connection.execute(sa.insert(Recommendation), [values])
        told.tell(unknown)
        assert told.row(ScalePlan).recommendation_id == "r-1"


class TestPlansOfPeople:
    def test_they_are_put_to_the_job_that_has_the_name_now(self, told: Told) -> None:
        wish = objects.plan(JOB, by_person=True)
        (waiting,) = told.tell(wish)
        assert waiting.row is not None
        assert waiting.row["job_name"] == "job"
        told.tell(JOB)
        told.forget(JOB)
        assert told.tell(wish) != []
        told.tell(objects.job(uid="uid-2"))
        assert told.tell(wish) == []
        assert told.row(ScalePlan).job_id == max(job.id for job in told.rows(Job))


class TestEvents:
    def test_each_time_of_a_repeated_one_is_a_row(self, told: Told) -> None:
        event = objects.event(POD, "BackOff")
        again = with_(with_(event, "lastTimestamp", "2026-01-31T12:09:00Z"), "count", 5)
        told.tell(JOB, POD, event, again)
        told.tell(again, event, change="MODIFIED")
        assert [row.evidence["count"] for row in told.rows(JobEvent)] == ["1", "5"]

    def test_of_the_job_and_of_its_plan_they_are_the_jobs_as_a_whole(self, told: Told) -> None:
        told.tell(JOB, PLAN, objects.event(JOB, "JobCreated"), objects.event(PLAN, "PlanSuperseded"))
        assert [(row.reason, row.node) for row in told.rows(JobEvent)] == [("JobCreated", ""), ("PlanSuperseded", "")]

    def test_one_of_a_pod_that_is_gone_finds_it(self, told: Told) -> None:
        told.tell(JOB, POD)
        told.tell(POD, change="DELETED")
        assert told.tell(objects.event(POD, "Killing")) == []

    def test_one_of_nothing_that_is_stored_waits(self, told: Told) -> None:
        (waiting,) = told.tell(objects.event(POD))
        assert waiting.subject is not None
        assert waiting.subject.name == POD["metadata"]["name"]


class TestWhatIsTakenForPresent:
    def test_of_this_cluster_and_namespace(self, told: Told) -> None:
        elsewhere = Told(told.engine, "elsewhere")
        other = objects.job("other", namespace="team", uid="uid-other")
        told.tell(*ALL, other, objects.pod(other, uid="uid-pod-other"))
        elsewhere.tell(objects.job("far", uid="uid-far"), objects.node(uid="uid-far-node"))
        assert {one.uid for one in told.known(Kind.ELASTIC_JOB)} == {"uid-job", "uid-other"}
        assert [one.uid for one in told.known(Kind.POD, "team")] == ["uid-pod-other"]
        assert [(one.uid, one.namespace, one.name) for one in told.known(Kind.NODE, "team")] == [("uid-n1", "", "n1")]
        assert [one.name for one in told.known(Kind.SCALE_PLAN)] == ["job-scaleplan-0"]
        assert told.known(Kind.EVENT) == []

    def test_what_is_gone_is_not(self, told: Told) -> None:
        told.tell(*ALL)
        told.forget(JOB, POD, PLAN, NODE)
        assert [told.known(kind) for kind in (Kind.ELASTIC_JOB, Kind.POD, Kind.SCALE_PLAN, Kind.NODE)] == [[]] * 4


class TestPriority:
    def test_a_jobs_priority_is_its_workers_as_it_is_now(self, told: Told) -> None:
        told.tell(JOB, with_(POD, "spec.priority", 1000))
        told.tell(with_(objects.pod(JOB, 7, role="master"), "spec.priority", 5))
        told.tell(with_(objects.pod(JOB, 1), "spec.priority", 6))  # of another fraction of its workers
        assert self.known(told) == [1000.0]
        told.tell(with_(POD, "spec.priority", -7), change="MODIFIED")
        assert self.known(told) == [-7.0]

    def test_a_pod_that_tells_none_leaves_it_unknown(self, told: Told) -> None:
        told.tell(JOB, POD, with_(POD, "spec.priority", "high"))
        assert self.known(told) == []

    def test_where_nobody_found_a_number_high_and_low_count(self, told: Told) -> None:
        for name, found in (("high", 1.0), ("low", -1.0), ("no-such-class", -1.0)):
            told.tell(JOB, with_(POD, "spec.priorityClassName", name))
            assert self.known(told) == [found]

    @staticmethod
    def known(told: Told) -> list[float]:
        return [row.value for row in told.rows(JobFeature) if row.name == "priority"]
