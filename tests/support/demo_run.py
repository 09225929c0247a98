"""A made-up run of the demo on disk, in the real formats, with every claim true; tests then spoil one thing."""

from __future__ import annotations

import json
import random
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from convoy.brain.store.engine import open_engine, writing
from convoy.brain.store.migrate import migrate
from convoy.core.cluster.local.store import Store
from support.manifests import job

BATCH = 512
START = 1_800_000_000.0
JOB_UID = "11111111-2222-3333-4444-555555555555"
EVERY = 20  # steps between two checkpoints
SINGLE, DOUBLE = 0.1, 0.06  # seconds a step with one worker and with two

Member = tuple[str, int]


def worker(number: int) -> str:
    """Return the name of a worker's pod."""
    return f"digits-edljob-worker-{number}"


class Log:
    """Writes step logs as the trainer does, and remembers when which step was finished."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.windows: list[dict[str, Any]] = []
        self._random = random.Random(7)
        directory.mkdir(parents=True)

    def train(self, number: int, members: list[Member], first: int, begin: float, end: float, mean: float) -> int:
        """Log a round from step ``first`` until ``end``; return its last step. Speeds go to ``windows``."""
        t, step, finished = begin, first, [(first - 1, begin)]
        self._mark("restored", number, members, begin, first - 1)
        while t + mean * 1.4 < end:
            t += mean * self._random.uniform(0.8, 1.2)
            for rank, (pod, pid) in enumerate(members):
                share = BATCH // len(members)
                self._write(pod, pid, {
                    "t": t + rank * 1e-4, "step": step, "round": number, "rank": rank, "world": len(members),
                    "pid": pid, "global_batch": BATCH, "local_batch": share, "loss": 1.0, "samples": BATCH,
                    "batch_size": share, "pod": pod,
                })  # fmt: skip
            finished.append((step, t))
            if step % EVERY == 0:
                self._mark("checkpoint", number, members[:1], t + 1e-3, step)
            step += 1
        for (before, since), (last, until) in zip(finished[::15], finished[15::15], strict=False):
            self.windows.append({
                "ended_at": until, "seconds": until - since, "first_step": before + 1, "last_step": last,
                "samples": BATCH * (last - before), "workers": len(members), "round": number,
                "warming": before + 1 == first,
            })  # fmt: skip
        return step - 1

    def yielded(self, number: int, members: list[Member], t: float, step: int) -> None:
        """Log that the ranks left at a step boundary, saved."""
        self._mark("checkpoint", number, members[:1], t, step)
        self._mark("yielded", number, members, t, step)

    def _mark(self, event: str, number: int, members: list[Member], t: float, step: int) -> None:
        for rank, (pod, pid) in enumerate(members):
            place = {"round": number, "rank": rank, "world": len(members), "pid": pid, "pod": pod}
            self._write(pod, pid, {"t": t, "event": event, "step": step, **place})

    def _write(self, pod: str, pid: int, record: dict[str, Any]) -> None:
        with open(self.directory / f"{pod}-0-{pid}.jsonl", "a") as file:
            file.write(json.dumps(record) + "\n")


def write_run(directory: Path) -> Path:
    """Write the run; return the folder of the job's step logs.

    Grown from 1 to 2 at second 20, a worker killed at 40, a node at 55, the master at 75, over at 95.
    """
    state = directory / "state"
    steps = state / "jobs" / "default" / f"digits-{JOB_UID[:8]}" / "steps"
    log = Log(steps)
    a, b, c, d, e = (worker(0), 100), (worker(1), 200), (worker(1), 201), (worker(0), 101), (worker(2), 300)
    last = log.train(1, [a], 1, START + 3, START + 20, SINGLE)
    log.yielded(1, [a], START + 20, last)
    last = log.train(2, [a, b], last + 1, START + 21, START + 40, DOUBLE)
    last = log.train(3, [a, c], last // EVERY * EVERY + 1, START + 41, START + 55, DOUBLE)
    last = log.train(4, [a], last // EVERY * EVERY + 1, START + 56, START + 58, SINGLE)
    log.yielded(4, [a], START + 58, last)
    last = log.train(5, [d, e], last + 1, START + 59, START + 95, DOUBLE)
    kills = [
        {"form": "whole"},
        {"t": START + 40, "what": "worker", "pod": b[0], "pid": b[1]},
        {"t": START + 55, "what": "node", "pod": c[0], "pid": 999},
        {"t": START + 75, "what": "master", "pod": "elasticjob-digits-dlrover-master-0", "pid": 50},
    ]
    (directory / "kills.jsonl").write_text("".join(json.dumps(kill) + "\n" for kill in kills))
    _write_objects(state)
    _write_store(f"sqlite:///{state / 'brain.db'}", log.windows, [worker(0), worker(1), worker(2)])
    return steps


def when(moment: float) -> str:
    """Return a moment as Kubernetes writes it."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _write_objects(state: Path) -> None:
    (state / "cluster").mkdir(parents=True)
    store = Store(state / "cluster" / "cluster.db")
    for manifest in (_job(), _plan(), _node(), *_measured(state)):
        with store.transaction() as transaction:
            transaction.put(manifest, {})
    store.close()


def _job() -> dict[str, Any]:
    made = job("digits", spec__optimizeMode="cluster", worker__minReplicas=1, worker__maxReplicas=4)
    made["metadata"] |= {"namespace": "default", "uid": JOB_UID, "creationTimestamp": when(START)}
    made["status"] = {
        "phase": "Succeeded",
        "master": {"epoch": 2, "pod": "elasticjob-digits-dlrover-master-1"},
        "training": {"state": "Succeeded", "restarts": 1, "relaunches": 1},
    }
    return made


def _plan() -> dict[str, Any]:
    return {
        "apiVersion": "elastic.iml.github.io/v1alpha1",
        "kind": "ScalePlan",
        "metadata": {
            "name": "digits-scaleplan-2",
            "namespace": "default",
            "uid": str(uuid.uuid4()),
            "creationTimestamp": when(START + 18),
        },
        "spec": {"ownerJob": "digits", "explanation": {"reason": "FasterAtLarger", "recommendation": "advice"}},
        "status": {"phase": "Succeeded"},
    }


def _node() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "local", "uid": str(uuid.uuid4())},
        "status": {"allocatable": {"cpu": "2", "memory": "8Gi"}},
    }


def _measured(state: Path) -> list[dict[str, Any]]:
    jobs = []
    for size, mean in ((1, SINGLE), (2, DOUBLE)):
        uid = str(uuid.uuid4())
        name = f"digits-at-{size}"
        log = Log(state / "jobs" / "default" / f"{name}-{uid[:8]}" / "steps")
        members = [(f"{name}-edljob-worker-{index}", 1000 + index) for index in range(size)]
        log.train(1, members, 1, START + 100, START + 110, mean)
        made = _job()
        made["metadata"] |= {"name": name, "uid": uid}
        made["spec"]["optimizeMode"] = "manual"
        made["spec"]["replicaSpecs"]["worker"] |= {"replicas": size}
        jobs.append(made)
    return jobs


def _write_store(url: str, windows: list[dict[str, Any]], nodes: list[str]) -> None:
    migrate(url)
    engine = open_engine(url)
    metadata = sa.MetaData()
    metadata.reflect(engine)
    table = metadata.tables
    text = {
        "template": "",
        "image": "",
        "user": "",
        "strategy": "allreduce",
        "model": "",
        "cluster": "",
        "node_type": "",
    }
    with writing(engine) as connection:

        def add(name: str, /, **values: Any) -> None:
            moments = {key: _utc(value) for key, value in values.items() if key.endswith(("_at", "_seen"))}
            connection.execute(table[name].insert().values({**values, **moments}))

        add("job", id=1, uid=JOB_UID, name="digits", namespace="default", state="Succeeded", origin="measured",
            first_seen=START, last_seen=START + 95, **text)  # fmt: skip
        for index, size in enumerate((1, 2, 4)):
            add("history_observation", digest=f"{index:064d}", origin="imported", source="digits.csv",
                imported_at=START - 5, job="past", workers=size, throughput=5000.0, status="ok")  # fmt: skip
        for window in windows:
            add("training_speed", job_id=1, ps=0, origin="measured", **window)
        for second in range(90):
            for rank, node in enumerate(nodes):
                add("job_node_load", job_id=1, ended_at=START + second, node=node, source="agent", seconds=1.0,
                    role="worker", rank=rank, round=1, cpu_cores=0.9, memory_bytes=300 << 20)  # fmt: skip
        predicted = BATCH / DOUBLE
        add("recommendation", id="advice", job_id=1, made_at=START + 17.9, stage="RUNNING", decision="CHANGE",
            reason="FasterAtLarger", message="2 workers are faster", workers_before=1, workers=2, predicted=predicted,
            lower90=predicted * 0.9, upper90=predicted * 1.1, lower99=predicted * 0.8, upper99=predicted * 1.2,
            price_per_hour=0.2, currency="USD", observations=8, history_jobs=1, request={},
            options=[option(1, BATCH / SINGLE), option(2, predicted)],
            evidence={"explanation": {"sentences": ["the limit is computing, 80 % of a step"]}},
            seconds=0.01)  # fmt: skip
        add("scale_plan", job_id=1, name="digits-scaleplan-2", recommendation_id="advice", created_at=START + 18,
            carried_out_at=START + 21, workers_before=1, workers_after=2, predicted=predicted,
            predicted_lower=predicted * 0.9, predicted_upper=predicted * 1.1, realized=predicted * 1.01,
            realized_seconds=10.0, restart_seconds=1.0, reason="Faster", message="", rolled_back=False)  # fmt: skip
        for later, reason in ((40.3, "ProcessFailed"), (40.6, "RoundCompleted"), (55.2, "MemberLost")):
            add("job_event", job_id=1, happened_at=START + later, reason=reason, node=worker(1), round=2, step=None,
                message=f"{reason} happened", evidence={})  # fmt: skip
    engine.dispose()


def option(workers: int, predicted: float) -> dict[str, Any]:
    """Return a size as the Brain weighed it."""
    return {
        "workers": workers,
        "predicted": predicted,
        "lower90": predicted * 0.9,
        "upper90": predicted * 1.1,
        "lower99": predicted * 0.8,
        "upper99": predicted * 1.2,
        "verdict": "chosen" if workers == 2 else "slower",
    }


def _utc(moment: float) -> datetime:
    return datetime.fromtimestamp(moment, UTC)
