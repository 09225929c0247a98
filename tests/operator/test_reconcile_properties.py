"""What holds in every history: nothing is done twice, a lost master costs no worker, what ended stays ended."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from convoy.operator.actions import Action, CreateObject, DeletePod
from support.operator_world import World, job_manifest, plan_manifest, pod_meta

EVENTS = st.one_of(
    st.tuples(st.just("pods run"), st.just(0)),
    st.tuples(st.just("worker fails"), st.integers(0, 5)),
    st.tuples(st.just("worker vanishes"), st.integers(0, 5)),
    st.tuples(st.sampled_from(["master fails", "master ends", "master vanishes", "master is deleted"]), st.just(0)),
    st.tuples(st.just("plan"), st.integers(0, 4)),
    st.tuples(st.just("stale plan"), st.integers(0, 4)),
    st.tuples(st.just("epoch"), st.just(0)),
    st.tuples(st.just("time"), st.sampled_from([0, 1, 5, 40, 100])),
    st.tuples(st.just("deleted pods go"), st.just(0)),
    st.tuples(st.just("state"), st.sampled_from(["Running", "Succeeded", "Failed"])),
    st.tuples(st.just("operator dies"), st.integers(0, 3)),
)


class History:
    """A world in which events happen; ``after`` checks what must hold after each."""

    def __init__(self) -> None:
        self.world = World()
        self.epoch = 1
        self.state = "Waiting"
        self.plans = 0
        self.next_pod = 0
        self.stale: list[str] = []
        self.ended = ""
        self.world.settle()
        self.say()

    def say(self) -> None:
        self.world.master_says(epoch=self.epoch, state=self.state)

    def happen(self, event: str, value: Any) -> None:
        cluster = self.world.cluster
        workers, masters = self.world.workers(), self.world.masters()
        match event:
            case "pods run":
                for name in [*workers, *masters]:
                    cluster.set_pod(name, "Running")
            case "worker fails" if workers:
                cluster.set_pod(workers[value % len(workers)], "Failed", 137)
            case "worker vanishes" if workers:
                cluster.vanish(workers[value % len(workers)])
            case "master fails" if masters:
                cluster.set_pod(masters[0], "Failed", 137)
            case "master ends" if masters:
                cluster.set_pod(masters[0], "Succeeded", 0)
            case "master vanishes" if masters:
                cluster.vanish(masters[0])
            case "master is deleted" if masters:
                cluster.objects["Pod", "default", masters[0]]["metadata"]["deletionTimestamp"] = "now"
            case "plan" | "stale plan":
                self._plan(value, stale=event == "stale plan")
            case "epoch":
                self.epoch += 1
                self.say()
            case "time":
                self.world.clock.advance(value)
            case "deleted pods go":
                cluster.bury()
            case "state" if self.state not in ("Succeeded", "Failed"):
                self.state = value
                self.say()
            case "operator dies":
                self.world.executor.run(self.world.decide().actions[:value])

    def _plan(self, create: int, *, stale: bool) -> None:
        removed = [pod_meta(number) for number in range(max(0, self.next_pod - 2), self.next_pod)]
        created = [pod_meta(self.next_pod + number) for number in range(create)]
        self.next_pod += create
        epoch = self.epoch - 1 if stale else self.epoch
        manifest = plan_manifest(self.plans, epoch=epoch, createPods=created, removePods=removed)
        self.plans += 1
        name = self.world.write_plan(manifest)
        if stale:
            self.stale.append(name)

    def after(self) -> None:
        world = self.world
        status = world.status
        assert world.step() == [], "running again does nothing more"
        assert len(world.cluster.created) == len(set(world.cluster.created)), "no name is used twice"
        assert len(world.cluster.deleted) == len(set(world.cluster.deleted)), "no pod is deleted twice"
        true = [
            one["type"] for one in status["conditions"] if one["status"] == "True" and one["type"][:6] != "Master"
        ]
        assert true == [status["phase"]], "one phase at a time"
        if self.ended:
            assert status["phase"] == self.ended, "what ended stays so"
        elif status["phase"] in ("Succeeded", "Failed"):
            self.ended = status["phase"]
        if self.ended:
            assert status["completionTime"]
        else:
            back_off = world.condition("MasterAvailable")["reason"] == "MasterBackOff"
            assert len(world.masters()) == (0 if back_off else 1), "one master, always"
        for name in self.stale:
            assert world.plan_status(name)["phase"] in ("Failed", "Superseded")
            created = world.cluster.get("ScalePlan", "default", name)["spec"]["createPods"]  # type: ignore[arg-type]
            assert not {pod["name"] for pod in created} & set(world.cluster.created), "a stale plan creates nothing"


def touches_workers(actions: list[Action]) -> bool:
    return any("edljob" in action.name for action in actions if isinstance(action, CreateObject | DeletePod))


@settings(max_examples=150)
@given(st.lists(EVENTS, max_size=25))
def test_any_history(events: list[tuple[str, Any]]) -> None:
    history = History()
    history.world.settle()
    history.after()
    for event, value in events:
        ended = bool(history.ended)
        history.happen(event, value)
        actions = history.world.settle()
        if event.startswith("master") and not ended:
            assert not touches_workers(actions), "a lost master is never a reason to touch workers"
        history.after()


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in ((*path, key), *_paths(item, (*path, key)))]


FULL_JOB = job_manifest(optimizeMode="cluster", brainService="h:1", resourceLimits={"cpu": "4"})
FULL_JOB["metadata"] |= {"labels": {"a": "b"}, "annotations": {"convoy/working-directory": "/x"}}
FULL_JOB["spec"]["replicaSpecs"]["worker"] |= {"minReplicas": 1, "maxReplicas": 4, "restartCount": 3}
FULL_PLAN = plan_manifest(
    0,
    createPods=[{**pod_meta(0), "resource": {"cpu": "1"}}],
    removePods=[pod_meta(7)],
    replicaResourceSpecs={"worker": {"replicas": 2, "resource": {"cpu": "1"}}},
    explanation={"reason": "Faster", "message": "m", "predictedSamplesPerSecond": 3.0},
)
IDENTITY = {("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}


def _without(manifest: dict[str, Any], paths: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Return the manifest without some fields, or, where a field is a list's item, with a null in its place."""
    result = copy.deepcopy(manifest)
    for path in paths:
        parent: Any = result
        try:
            for key in path[:-1]:
                parent = parent[key]
            if isinstance(parent, list):
                parent[path[-1]] = None
            else:
                parent.pop(path[-1], None)
        except (KeyError, TypeError, IndexError, AttributeError):  # its parent is gone already
            continue
    return result


@settings(max_examples=150)
@given(st.data())
def test_whatever_is_left_out_the_reconcilers_answer(data: st.DataObject) -> None:
    droppable = [path for path in _paths(FULL_JOB) if path not in IDENTITY]
    job = _without(FULL_JOB, data.draw(st.lists(st.sampled_from(droppable), max_size=3)))
    droppable = [path for path in _paths(FULL_PLAN) if path not in IDENTITY]
    plan = _without(FULL_PLAN, data.draw(st.lists(st.sampled_from(droppable), max_size=3)))
    world = World(job)
    world.settle()
    world.master_says(epoch=1, state="Running")
    world.write_plan(plan)
    world.settle()
    for name in world.cluster.pods():
        world.cluster.set_pod(name, "Failed", 1)
    droppable = _paths({"status": world.status})
    stored = world.cluster.objects["ElasticJob", "default", "digits"]
    stored.update(_without({"status": world.status}, data.draw(st.lists(st.sampled_from(droppable), max_size=3))))
    for pod in world.cluster.pods().values():
        droppable = [
            path for path in _paths(pod) if path[0] in ("spec", "status") or path[:2] == ("metadata", "labels")
        ]
        pod_without = _without(pod, data.draw(st.lists(st.sampled_from(droppable), max_size=3)))
        world.cluster.objects["Pod", "default", pod["metadata"]["name"]] = pod_without
    world.executor.run(world.decide().actions)
    world.decide()
