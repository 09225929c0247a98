"""What happens in the demo, in order. Each step waits for its effect; nothing is scripted but the faults."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from convoy.cli import manifest, submit
from convoy.cli.demo import watch
from convoy.cli.demo.faults import Faults, is_running, master_pod
from convoy.cli.demo.stage import Stage
from convoy.cli.demo.watch import Last
from convoy.cli.screen import counted
from convoy.core.api import names
from convoy.core.api.errors import JobFailed
from convoy.core.api.job import ElasticJob
from convoy.core.api.job_status import Phase
from convoy.core.api.meta import Manifest
from convoy.core.api.plan import PlanPhase, ScalePlan
from convoy.core.cluster.local.processes import alive
from convoy.core.cluster.port import Kind
from convoy.core.process import paths

NAMESPACE = "default"


@dataclass(frozen=True, slots=True)
class Form:
    """How long each part lasts, in seconds."""

    name: str
    settle: float  # at the new size before the first fault
    worker: float  # after each recovery
    node: float
    master: float
    measure: float  # at each other size; 0: none is measured


WHOLE = Form("whole", settle=16.0, worker=9.0, node=9.0, master=12.0, measure=12.0)
QUICK = Form("quick", settle=4.0, worker=4.0, node=0.0, master=8.0, measure=0.0)


@dataclass(slots=True)
class Story:
    """What the demo notes for its report: when what happened (seconds since the epoch)."""

    uid: str = ""
    submitted: float = 0.0
    events: list[dict[str, Any]] = field(default_factory=list)
    faults: list[dict[str, Any]] = field(default_factory=list)
    measured: list[dict[str, Any]] = field(default_factory=list)
    unmeasured: str = ""  # why no larger size was measured; empty where all were

    def note(self, label: str, kind: str, moment: float | None = None) -> None:
        """Note an event."""
        self.events.append({"time": time.time() if moment is None else moment, "label": label, "kind": kind})


class Scenario:
    """One run of the demo on a stage."""

    def __init__(self, stage: Stage, form: Form, example: Path, story: Story) -> None:
        self.stage, self.form, self.story = stage, form, story
        self.store = stage.state / "brain.db"
        self.faults = Faults(stage.directory / "kills.jsonl", form.name)
        self.example = manifest.for_this_machine(yaml.safe_load(example.read_text()), example.parent)
        self.name: str = self.example["metadata"]["name"]
        self.steps = Path()

    def submit(self, job: Manifest) -> Path:
        """Submit a job as `convoy submit` does; return the folder of its step logs."""
        submit.check(self.stage.cluster, job)
        created = self.stage.cluster.create(job, field_manager=names.MANAGER_CLI)
        uid = created["metadata"]["uid"]
        return paths.job_dir(self.stage.state, NAMESPACE, job["metadata"]["name"], uid) / "steps"

    def train(self) -> None:
        """Submit the example and wait for its first steps."""
        self.story.submitted = time.time()
        self.steps = self.submit(self.example)
        self.story.uid = self.job().metadata.uid
        worker = self.example["spec"]["replicaSpecs"]["worker"]
        self.stage.say(
            "submitted ",
            (self.name, "bold"),
            f" with {counted(worker['replicas'], 'worker')}, at most {worker['maxReplicas']}: "
            "the wrong size, on purpose",
        )
        self._await("the first steps", 60.0, lambda ends: ends[0].step >= 3)
        self.story.note("1 worker trains", "state")
        self.stage.say("training began")

    def reported(self) -> None:
        """Wait until node load and speed are in the Brain's store."""

        def arrived() -> tuple[int, int] | None:
            series = ("job_node_load", "training_speed")
            counts = [len(watch.of_job(self.store, name, self.story.uid)) for name in series]
            return (counts[0], counts[1]) if all(counts) else None

        self.stage.doing("node load and speed on their way to the Brain")
        load, speed = self.stage.wait(arrived, "node load and training speed in the Brain's store", 40.0)
        self.stage.say(f"the Brain's store holds {load} samples of load and {speed} of speed")

    def grow(self) -> None:
        """Wait for the Brain's recommendation, its plan, and steps at the new size."""
        asked = self.example["spec"]["replicaSpecs"]["worker"]["replicas"]
        self.stage.doing("the Brain learns the job's speed")
        plan = self.stage.wait(self._grown, "a plan by the Brain that changes the size", 90.0)
        why = plan.spec.explanation
        assert why is not None
        self.story.note(f"plan: {why.reason}", "plan", _epoch(plan.metadata.creation_timestamp))
        self.stage.say((why.reason, "green"), f": {why.message}")
        self.stage.doing(f"{plan.metadata.name} is carried out")
        ends = self._await("steps at the new size", 60.0, lambda ends: ends[0].world != asked)
        self.story.note(f"{ends[0].world} workers train", "plan", watch.first_step(self.steps, ends[0].round))
        self.stage.say(f"{counted(ends[0].world, 'worker')} at work, step {ends[0].step}")
        self._go_on(self.form.settle, "the new size settles")

    def lose_worker(self) -> None:
        """Kill one training process and see the job recover."""
        victim = self._victim()
        moment = self.faults.kill_worker(victim.pod, victim.pid)
        self.stage.say(("killed", "red"), f" worker {victim.pid} on {victim.pod} at step {victim.step}")
        self._recovered("worker killed", moment, victim, victim.world, self.form.worker)

    def lose_node(self) -> None:
        """Kill a whole node, agent and workers, and see another one take its place."""
        victim = self._victim()
        moment = self.faults.kill_node(self.stage.cluster, NAMESPACE, victim.pod)
        self.stage.say(("killed", "red"), f" node {victim.pod}, agent and workers, at step {victim.step}")
        self._recovered("node killed", moment, victim, victim.world, self.form.node)

    def lose_master(self) -> None:
        """Kill the job's master and see nobody miss it."""
        before = self._ends()
        epoch = self.job().status.master.epoch
        pod = self.stage.wait(lambda: master_pod(self.stage.cluster, NAMESPACE, self.name), "a running master", 20.0)
        moment = self.faults.kill_master(self.stage.cluster, NAMESPACE, pod)
        self.story.note("master killed", "fault", moment)
        self.stage.say(("killed", "red"), f" the master, {pod}")
        self.stage.doing("a new master takes over")
        self.stage.wait(lambda: self.job().status.master.epoch > epoch, "a new master", 40.0)
        self.story.note("new master", "state")
        self._go_on(max(0.0, moment + self.form.master - time.time()), "the workers train on")
        after = self._ends()
        same = [end.pid for end in before] == [end.pid for end in after]
        self.stage.say(
            f"a new master holds the job; {'the same' if same else 'other'} processes train on, "
            f"{after[0].step - before[0].step} steps later"
        )

    def finish(self) -> None:
        """Let the job come to its end."""
        self.stage.say(f"the demo ends {self.name} early: by its finish file, {self.steps.parent / 'finish'}")
        self.end(self.name, self.steps)
        self.story.note("Succeeded", "state")
        self.stage.say((self.name, "bold"), f" is {self.job().status.phase}")

    def end(self, name: str, steps: Path) -> None:
        """Tell a job to stop at its next step, and wait until it has Succeeded.

        Raises:
            JobFailed: it ended otherwise.
        """
        (steps.parent / "finish").touch()
        self.stage.doing(f"{name} comes to its end")
        phase = self.stage.wait(lambda: self._over(name), f"the end of {name}", 45.0)
        if phase is not Phase.SUCCEEDED:
            raise JobFailed(f"{name} ended {phase}")

    def job(self, name: str | None = None) -> ElasticJob:
        """Return a job as it is now."""
        return ElasticJob.from_manifest(self.stage.cluster.get(Kind.ELASTIC_JOB, NAMESPACE, name or self.name))

    def _over(self, name: str) -> Phase | None:
        phase = self.job(name).status.phase
        return phase if phase is not None and phase.is_terminal else None

    def _grown(self) -> ScalePlan | None:
        for one in self.stage.cluster.list(Kind.SCALE_PLAN, NAMESPACE).items:
            plan = ScalePlan.from_manifest(one)
            why = plan.spec.explanation
            if plan.spec.owner_job == self.name and why and why.recommendation and plan.spec.create_pods:
                wanted = plan.spec.replica_resource_specs.get("worker")
                if plan.status.phase is PlanPhase.SUCCEEDED and (wanted is None or wanted.replicas != 1):
                    return plan
        return None

    def _recovered(self, label: str, moment: float, victim: Last, world: int, seconds: float) -> None:
        self.story.note(label, "fault", moment)
        self.stage.doing("recovering")
        ends = self._await("steps after the fault", 60.0, lambda ends: ends[0].round > victim.round)
        first = watch.first_step(self.steps, ends[0].round)
        assert first is not None
        self.story.faults.append({"label": label, "killed": moment, "round": ends[0].round, "first_step": first})
        self.stage.say(f"training goes on after {first - moment:.1f} s, with {counted(ends[0].world, 'worker')}")
        if ends[0].world != world:
            self.stage.doing("another node takes its place")
            ends = self._await("the whole world again", 60.0, lambda ends: ends[0].world == world)
            self.story.note(f"{counted(world, 'worker')} again", "plan", watch.first_step(self.steps, ends[0].round))
            self.stage.say(f"{counted(world, 'worker')} again, step {ends[0].step}")
        self._go_on(seconds, "training on")

    def _victim(self) -> Last:
        """Return the last process of the world, once it and its pod run."""

        def look() -> Last | None:
            last = self._ends()[-1]
            return last if alive(last.pid) and is_running(self.stage.cluster, NAMESPACE, last.pod) else None

        return self.stage.wait(look, "a process to kill", 60.0)

    def _ends(self) -> list[Last]:
        return self._await("steps", 30.0, lambda ends: len(ends) == ends[0].world)

    def _await(self, what: str, seconds: float, condition: Callable[[list[Last]], bool]) -> list[Last]:
        def look() -> list[Last] | None:
            ends = watch.last_steps(self.steps)
            if ends and condition(ends):
                return ends
            if self._over(self.name) is not None:
                raise JobFailed(f"{self.name} is over, waiting for {what}; see the logs in {self.stage.state}")
            return None

        return self.stage.wait(look, what, seconds)

    def _go_on(self, seconds: float, what: str) -> None:
        """Let the job train for a while, and see that it does."""
        until, before = time.monotonic() + seconds, watch.last_steps(self.steps)
        while (left := until - time.monotonic()) > 0:
            self.stage.keep()
            ends = watch.last_steps(self.steps)
            self.stage.doing(f"{what}: step {ends[0].step}, {left:.0f} s more")
            time.sleep(min(left, 0.5))
        self._await("more steps", 30.0, lambda ends: ends[0].step > before[0].step)


def _epoch(moment: Any) -> float:
    return float(moment.timestamp()) if moment is not None else time.time()
