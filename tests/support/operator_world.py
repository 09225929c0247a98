"""A job, its master's words and its operator's steps, for tests of the reconcilers on a model cluster."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from convoy.core.api import names
from convoy.core.api.meta import Manifest
from convoy.core.cluster.port import Kind
from convoy.operator import plan
from convoy.operator.actions import Action, Decision
from convoy.operator.executor import Executor
from convoy.operator.job import decide
from convoy.operator.observe import observe
from convoy.operator.pods import Site
from support.clock import FakeClock
from support.model_cluster import ModelCluster

SITE = Site(master_image="convoy", master_command=("convoy", "master"), brain_address="127.0.0.1:7", jobs_dir=None)


def job_manifest(name: str = "digits", **spec: Any) -> Manifest:
    """Return a job of one worker role."""
    container = {
        "name": "main",
        "image": "img",
        "command": ["dlrover-run", "train.py"],
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
        "resources": {"requests": {"cpu": "1"}},
    }
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ElasticJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "distributionStrategy": "AllreduceStrategy",
            "replicaSpecs": {"worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}},
            **spec,
        },
    }


def pod_meta(number: int, *, job: str = "digits", rank: int | None = None, relaunch: int = 0) -> Manifest:
    """Return a plan's word for a worker."""
    return {
        "name": names.pod(job, "worker", number),
        "type": "worker",
        "id": number,
        "rankIndex": number if rank is None else rank,
        "relaunchCount": relaunch,
    }


def plan_manifest(number: int, *, epoch: int | None = 1, job: str = "digits", **spec: Any) -> Manifest:
    """Return a plan as a master writes it."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": "ScalePlan",
        "metadata": {"name": names.scale_plan(job, number), "namespace": "default"},
        "spec": {"ownerJob": job, **({} if epoch is None else {"epoch": epoch}), **spec},
    }


class World:
    """A model cluster with one job, and the operator's steps."""

    def __init__(self, job: Manifest | None = None, site: Site = SITE) -> None:
        self.clock = FakeClock()
        self.cluster = ModelCluster(self.clock)
        self.executor = Executor(self.cluster)
        self.site = site
        self.name = (job or job_manifest())["metadata"]["name"]
        self.cluster.create(job or job_manifest(), field_manager="convoy-cli")

    def decide(self) -> Decision:
        """Return what the operator would do now."""
        seen, plans = observe(self.cluster, "default", self.name)
        now = datetime.fromtimestamp(self.clock.now(), UTC)
        return plan.without_job(plans, now) if seen is None else decide(seen, self.site, now)

    def step(self) -> list[Action]:
        """Reconcile once; return the actions."""
        decision = self.decide()
        failure = self.executor.run(decision.actions)
        if failure is not None:
            raise failure.error
        return list(decision.actions)

    def settle(self) -> list[Action]:
        """Reconcile until nothing more is asked for; return all actions."""
        done: list[Action] = []
        for _ in range(20):
            actions = self.step()
            if not actions:
                return done
            done += actions
        raise AssertionError(f"the operator doesn't come to rest: {self.decide()}")

    def master_says(self, *, epoch: int | None = None, **training: Any) -> None:
        """Write the master's part of the status."""
        status = self.job.get("status") or {}
        master = {"master": {"epoch": epoch}} if epoch is not None else {"master": status.get("master") or {}}
        manifest = {"kind": "ElasticJob", "metadata": {"name": self.name}, "status": {**master, "training": training}}
        self.cluster.apply_status(manifest, field_manager="convoy-master")

    def write_plan(self, manifest: Manifest) -> str:
        """Create a plan; return its name."""
        self.cluster.create(manifest, field_manager="convoy-master")
        return str(manifest["metadata"]["name"])

    @property
    def job(self) -> Manifest:
        """The job as it stands."""
        return self.cluster.get(Kind.ELASTIC_JOB, "default", self.name)

    @property
    def status(self) -> dict[str, Any]:
        """The job's status."""
        found: dict[str, Any] = self.job.get("status") or {}
        return found

    def plan_status(self, name: str) -> dict[str, Any]:
        """Return a plan's status."""
        found: dict[str, Any] = self.cluster.get(Kind.SCALE_PLAN, "default", name).get("status") or {}
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        """Return the job's condition of a type; empty where it has none."""
        conditions: list[dict[str, Any]] = self.status.get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), {})

    def masters(self) -> list[str]:
        """Return the names of masters that live."""
        pods = self.cluster.pods(names.MASTER)
        return [name for name, pod in pods.items() if _lives(pod)]

    def workers(self) -> list[str]:
        """Return the names of workers that live."""
        return [name for name, pod in self.cluster.pods("worker").items() if _lives(pod)]


def _lives(pod: Manifest) -> bool:
    return "deletionTimestamp" not in pod["metadata"] and pod["status"]["phase"] not in ("Succeeded", "Failed")


def local_site(root: Path) -> Site:
    """Return a site whose jobs have folders below a root."""
    return Site(master_image="convoy", master_command=("convoy", "master"), jobs_dir=root)
