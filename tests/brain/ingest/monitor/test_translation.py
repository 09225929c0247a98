"""A kind's manifest as a row: what is read of it, in which unit, and what is made of what is missing or wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from convoy.brain.ingest.monitor import event, job, node, plan, pod
from convoy.brain.ingest.monitor.event import Subject
from convoy.brain.ingest.monitor.parts import Part, Refused, Row
from convoy.brain.ingest.monitor.told import translate
from convoy.core.api.job import ElasticJob
from convoy.core.cluster.port import Change, Kind
from convoy.master import describe
from support import cluster_objects as objects
from support.cluster_objects import with_

GIB = 1 << 30
NOW = datetime(2026, 2, 1, tzinfo=UTC)


def at(hour: int, minute: int = 0, second: int = 0) -> datetime:
    return datetime(2026, 1, 31, hour, minute, second, tzinfo=UTC)


def job_row(manifest: dict[str, Any]) -> Row:
    return job.row(Part(manifest), "user")


class TestJobs:
    def test_the_master_of_the_job_describes_the_same_row(self) -> None:
        manifest = objects.job(
            phase="Running",
            spec__optimizeMode="cluster",
            metadata__labels={"user": "ada"},
            container__image="registry.example/train:1@sha256:abc",
            container__command=["dlrover-run", "--nnodes=1:4"],
            container__args=["/data/v7/train.py", "--lr=0.1"],
        )
        told = describe.description(ElasticJob.from_manifest(manifest), "Running")
        row = job_row(manifest)
        same = ("uid", "name", "namespace", "template", "image", "user", "strategy", "state")
        assert {name: row[name] for name in same} == {name: getattr(told, name) for name in same}
        assert row["template"]
        assert row["user"] == "ada"

    @pytest.mark.parametrize(
        ("phase", "state"),
        [
            ("Created", "Waiting"),
            ("Pending", "Waiting"),
            ("Suspended", "Waiting"),
            ("Running", "Running"),
            ("Scaling", "Running"),
            ("Restarting", "Running"),
            ("Succeeded", "Succeeded"),
            ("Failed", "Failed"),
            ("", ""),
        ],
    )
    def test_state_follows_from_the_phase(self, phase: str, state: str) -> None:
        assert job_row(objects.job(phase=phase))["state"] == state

    def test_its_end_is_told(self) -> None:
        over = with_(objects.job(phase="Failed"), "status.completionTime", "2026-01-31T13:00:00Z")
        assert job_row(over)["ended_at"] == at(13)

    def test_who_sizes_it_where_the_spec_says_nothing(self) -> None:
        silent = objects.job()
        del silent["spec"]["optimizeMode"]
        assert job_row(silent)["optimize_mode"] == "single-job"

    def test_the_accelerator_that_its_pods_select(self) -> None:
        picky = with_(
            objects.job(),
            "spec.replicaSpecs.worker.template.spec.nodeSelector",
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
        )
        assert job_row(picky)["accelerator"] == "NVIDIA-H100-80GB-HBM3"

    def test_another_label_says_whose_it_is(self) -> None:
        labelled = with_(objects.job(), "metadata.labels", {"user": "ada", "example.com/team": "vision"})
        assert job.row(Part(labelled), "example.com/team")["user"] == "vision"

    def test_dlrovers_job_with_fields_and_words_of_its_own(self) -> None:
        theirs = with_(objects.job(phase="Running"), "spec.enableElasticScheduling", True)
        theirs = with_(theirs, "spec.distributionStrategy", "ParameterServerStrategy")
        theirs = with_(theirs, "spec.optimizeMode", "manunal")
        part = Part(theirs)
        row = job.row(part, "user")
        assert (row["strategy"], row["optimize_mode"], row["state"]) == ("ps", "manual", "Running")
        assert part.faults == []

    def test_a_job_without_a_spec_is_stored_as_far_as_it_goes(self) -> None:
        bare = objects.job(phase="Running")
        del bare["spec"]
        part = Part(bare)
        row = job.row(part, "user")
        assert (row["uid"], row["state"], row["template"]) == ("uid-job", "Running", "")
        assert any("holds no container" in fault for fault in part.faults)

    def test_what_is_wrong_is_left_out_and_named(self) -> None:
        wrong = with_(objects.job(phase="Sleeping"), "spec.distributionStrategy", "Gossip")
        wrong = with_(wrong, "spec.replicaSpecs.worker.template.spec.containers.0.image", 7)
        part = Part(wrong)
        row = job.row(part, "user")
        assert (row["state"], row["strategy"], row["image"]) == ("", "", "")
        assert [fault.split(" is ")[0] for fault in part.faults] == [
            "spec.replicaSpecs.worker.template.spec.containers[0].image",
            "spec.distributionStrategy",
            "status.phase",
        ]

    @pytest.mark.parametrize(
        ("path", "value", "why"),
        [
            ("metadata.name", "n" * 300, "metadata.name has 300 characters: expected at most 253"),
            ("metadata.uid", None, "metadata.uid is None"),
            ("metadata.namespace", "", "metadata.namespace is ''"),
            ("metadata.name", "a\nb", "control characters"),
        ],
    )
    def test_what_names_no_object_is_refused(self, path: str, value: Any, why: str) -> None:
        with pytest.raises(Refused, match=why):
            job_row(with_(objects.job(), path, value))


class TestPods:
    owner = objects.job()

    def row(self, status: dict[str, Any] | None = None, **more: Any) -> Row:
        return pod.row(Part(objects.pod(self.owner, 3, status=status, **more)))

    def test_whose_it_is_where_it_runs_and_what_it_was_allotted(self) -> None:
        row = self.row(objects.running(), node="n1")
        assert (row["job_uid"], row["job_name"], row["role"], row["rank"]) == ("uid-job", "job", "worker", 3)
        assert (row["node"], row["cpu_allotted"], row["memory_allotted"]) == ("n1", 2.0, 4 * GIB)
        assert row["accelerators"] == 1.0
        assert (row["created_at"], row["started_at"], row["ended_at"]) == (at(12), at(12, 0, 10), None)

    def test_all_its_containers_count_and_a_limit_stands_for_a_request(self) -> None:
        side = {"name": "side", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}
        made = objects.pod(self.owner)
        made["spec"]["containers"].append(side)
        row = pod.row(Part(made))
        assert (row["cpu_allotted"], row["memory_allotted"]) == (2.5, 5 * GIB)

    def test_what_asks_for_nothing_was_allotted_what_nobody_knows(self) -> None:
        row = pod.row(Part(with_(objects.pod(self.owner), "spec.containers.0.resources", {})))
        assert (row["cpu_allotted"], row["memory_allotted"], row["accelerators"]) == (None, None, None)

    def test_how_it_ended(self) -> None:
        row = self.row(objects.ended("OOMKilled", 137))
        assert (row["phase"], row["reason"], row["exit_code"]) == ("Failed", "OOMKilled", 137)
        assert row["ended_at"] == at(13)

    def test_the_container_that_trains_says_it_not_the_one_beside_it(self) -> None:
        status = objects.ended("OOMKilled", 137)
        beside = {"name": "a-side", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
        status["containerStatuses"].insert(0, beside)
        made = objects.pod(self.owner, status=status)
        made["spec"]["containers"].insert(0, {"name": "a-side"})
        assert pod.row(Part(made))["reason"] == "OOMKilled"

    def test_an_evicted_pod_says_so_whatever_its_container_says(self) -> None:
        status = {**objects.ended("Error", 137), "reason": "Evicted"}
        assert self.row(status)["reason"] == "Evicted"

    def test_an_evicted_pod_without_containers_ended_when_it_was_no_longer_ready(self) -> None:
        since = {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-31T12:30:00Z"}
        row = self.row({"phase": "Failed", "reason": "Evicted", "conditions": [since]})
        assert (row["reason"], row["ended_at"], row["exit_code"]) == ("Evicted", at(12, 30), None)

    @pytest.mark.parametrize(("how", "reason"), [("Error", "PreemptionByScheduler"), ("OOMKilled", "OOMKilled")])
    def test_a_preempted_pod_says_so_unless_it_ended_for_another_reason(self, how: str, reason: str) -> None:
        target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        assert self.row({**objects.ended(how, 137), "conditions": [target]})["reason"] == reason

    def test_why_it_waits(self) -> None:
        unplaced = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
        assert self.row({"phase": "Pending", "conditions": [unplaced]})["reason"] == "Unschedulable"
        pulling = {"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
        assert self.row({"phase": "Pending", "containerStatuses": [pulling]})["reason"] == "ImagePullBackOff"

    def test_a_moment_that_never_came_is_none(self) -> None:
        status = objects.ended("ContainerStatusUnknown", 137)
        status["containerStatuses"][0]["state"]["terminated"] |= {"startedAt": "1970-01-01T00:00:00Z"}
        part = Part(objects.pod(self.owner, status=status))
        assert pod.row(part)["started_at"] is None
        assert part.faults == []

    def test_a_bad_quantity_is_left_out_and_named(self) -> None:
        part = Part(with_(objects.pod(self.owner), "spec.containers.0.resources.requests.cpu", "12q"))
        row = pod.row(part)
        assert (row["cpu_allotted"], row["memory_allotted"]) == (None, 4 * GIB)
        assert len(part.faults) == 1
        assert part.faults[0].startswith(
            "spec.containers[0].resources.requests.cpu is wrong: '12q' is not a quantity"
        )

    def test_a_pod_that_only_carries_the_label_is_no_jobs(self) -> None:
        stray = objects.pod(self.owner)
        del stray["metadata"]["ownerReferences"]
        with pytest.raises(Refused, match="no ElasticJob controls it"):
            pod.row(Part(stray))


class TestMachines:
    def test_what_it_is_and_has(self) -> None:
        assert node.row(Part(objects.node())) == {
            "uid": "uid-n1",
            "name": "n1",
            "node_type": "a2-highgpu-2g",
            "zone": "eu-1b",
            "accelerator": "NVIDIA-A100-SXM4-40GB",
            "cpu_capacity": 8.0,
            "memory_capacity": 32 * GIB,
            "accelerators_capacity": 2.0,
            "cpu_allocatable": 7.91,
            "memory_allocatable": 31 * GIB,
            "accelerators_allocatable": 2.0,
            "ready": True,
            "schedulable": True,
            "labels": objects.node()["metadata"]["labels"],
        }

    @pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", None)])
    def test_a_silent_kubelet_is_not_known_to_be_ready(self, status: str, ready: bool | None) -> None:
        made = with_(objects.node(), "status.conditions.0.status", status)
        assert node.row(Part(made))["ready"] is ready

    def test_a_cordoned_one_takes_no_pods(self) -> None:
        assert node.row(Part(with_(objects.node(), "spec.unschedulable", True)))["schedulable"] is False

    def test_accelerators_that_no_label_names_are_called_by_their_resource(self) -> None:
        made = with_(objects.node(), "metadata.labels", {})
        row = node.row(Part(made))
        assert (row["accelerator"], row["node_type"]) == ("nvidia.com/gpu", "")

    def test_one_without_accelerators_has_none_whatever_its_labels_say(self) -> None:
        made = with_(objects.node(), "status.capacity", {"cpu": "8", "memory": "32Gi"})
        made = with_(made, "status.allocatable", {"cpu": "8", "memory": "32Gi"})
        row = node.row(Part(made))
        assert (row["accelerator"], row["accelerators_capacity"]) == ("", 0.0)


class TestPlans:
    owner = objects.job()

    def test_what_the_master_asked_for_and_why(self) -> None:
        row = plan.row(Part(objects.plan(self.owner, 2, replicas=5, phase="Pending")))
        assert (row["name"], row["job_uid"], row["job_name"]) == ("job-scaleplan-2", "uid-job", "job")
        assert (row["workers_after"], row["reason"], row["predicted"]) == (5, "FasterAt", 1200.5)
        assert (row["phase"], row["made_at"]) == ("Pending", at(12))

    def test_of_a_persons_plan_the_answer_says_what_became_of_it(self) -> None:
        answered = objects.plan(self.owner, by_person=True, phase="Failed")
        said = {"type": "Finished", "status": "True", "reason": "OutOfRange", "message": "at most 4 fit"}
        row = plan.row(Part(with_(answered, "status.conditions", [said])))
        assert (row["job_uid"], row["reason"], row["message"]) == ("", "OutOfRange", "at most 4 fit")

    def test_a_plan_for_no_job_is_refused(self) -> None:
        with pytest.raises(Refused, match=r"spec\.ownerJob is None"):
            plan.row(Part(with_(objects.plan(self.owner), "spec.ownerJob", None)))


class TestEvents:
    pod = objects.pod(objects.job())

    def test_of_what_and_when(self) -> None:
        part = Part(objects.event(self.pod, "OOMKilling"))
        assert event.subject(part) == Subject(Kind.POD, "default", "job-edljob-worker-0", "uid-job-edljob-worker-0")
        row = event.row(part)
        assert (row["happened_at"], row["reason"], row["message"]) == (at(12, 0, 11), "OOMKilling", "OOMKilling it")
        assert row["evidence"] == {"type": "Normal", "component": "kubelet", "count": "1"}

    def test_of_a_series_its_last_time_and_count(self) -> None:
        series = {"count": 9, "lastObservedTime": "2026-01-31T12:05:00.123456Z"}
        row = event.row(Part(objects.event(self.pod, lastTimestamp=None, count=None, series=series)))
        assert row["happened_at"] == at(12, 5).replace(microsecond=123456)
        assert row["evidence"]["count"] == "9"

    def test_one_of_the_newer_api_has_but_one_time(self) -> None:
        newer = objects.event(self.pod, lastTimestamp=None, firstTimestamp=None, eventTime="2026-01-31T12:07:00Z")
        assert event.row(Part(newer))["happened_at"] == at(12, 7)

    def test_a_machine_is_known_by_its_name(self) -> None:
        of = event.subject(Part(objects.event(objects.node(), "NodeNotReady")))
        assert of == Subject(Kind.NODE, "", "n1", "n1")

    @pytest.mark.parametrize(
        ("kind", "version"),
        [("Service", "v1"), ("Pod", "metrics.k8s.io/v1beta1"), ("ElasticJob", "other.example/v1")],
    )
    def test_of_anything_else_it_is_not_ours(self, kind: str, version: str) -> None:
        made = with_(objects.event(self.pod), "involvedObject.kind", kind)
        made = with_(made, "involvedObject.apiVersion", version)
        assert translate(Kind.EVENT, Change("ADDED", made), "user", NOW) is None

    def test_without_a_reason_it_is_refused(self) -> None:
        with pytest.raises(Refused, match="reason is ''"):
            event.row(Part(objects.event(self.pod, reason="")))


class TestChanges:
    def test_another_version_of_a_kind_is_read_and_said(self) -> None:
        entry = translate(
            Kind.ELASTIC_JOB, Change("ADDED", with_(objects.job(), "apiVersion", "elastic.example/v2")), "user", NOW
        )
        assert entry is not None
        assert entry.faults == ("apiVersion is 'elastic.example/v2': it is read as elastic.iml.github.io/v1alpha1",)

    def test_anothers_pod_is_not_ours(self) -> None:
        other = with_(objects.pod(objects.job()), "metadata.labels", {"app": "web"})
        assert translate(Kind.POD, Change("ADDED", other), "user", NOW) is None

    def test_of_what_merely_went_the_last_state_stays(self) -> None:
        made = objects.pod(objects.job(), status=objects.running())
        seen = translate(Kind.POD, Change("MODIFIED", made), "user", NOW)
        bare = {key: made[key] for key in ("apiVersion", "kind", "metadata")}
        bare["metadata"] = {key: made["metadata"][key] for key in ("uid", "name", "namespace")}
        gone = translate(Kind.POD, Change("DELETED", bare), "user", NOW)
        assert seen is not None
        assert gone is not None
        assert (gone.row, gone.gone_at) == (None, NOW)
        assert gone.key == seen.key
        both = seen.then(gone)
        assert (both.row, both.gone_at) == (seen.row, NOW)

    def test_each_time_of_a_repeated_event_is_kept(self) -> None:
        made = objects.event(objects.pod(objects.job()))
        again = with_(made, "lastTimestamp", "2026-01-31T12:09:00Z")
        keys = {
            entry.key
            for one in (made, again, made)
            if (entry := translate(Kind.EVENT, Change("MODIFIED", one), "user", NOW))
        }
        assert len(keys) == 2
