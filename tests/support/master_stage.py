"""A job's master as a process on a local cluster, with an operator and agents that a test plays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from convoy.core.api import names
from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import AlreadyExists, ClusterError, ConvoyError, Unavailable
from convoy.core.api.v1 import master_pb2 as pb
from convoy.core.api.v1 import master_pb2_grpc
from convoy.core.cluster.local import open_cluster
from convoy.core.cluster.port import Kind
from convoy.core.rpc.caller import Caller, async_channel
from support.manifests import job as job_manifest
from support.waiting import until

TOKEN = "the-job's-token"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Stage:
    """One job on one cluster. ``operating`` False has the operator be away."""

    def __init__(self, state_dir: Path, **changes: Any) -> None:
        self.state_dir = state_dir
        self.port = free_port()
        self.operating = True
        self.cluster = open_cluster(state_dir)
        self.job = self.cluster.create(job_manifest(**changes), field_manager="convoy-cli")
        self.masters: list[subprocess.Popen[bytes]] = []
        self.log = state_dir / "master.log"
        self._ended = threading.Event()
        self._operator = threading.Thread(target=self._operate, name="operator", daemon=True)
        self._operator.start()

    @property
    def uid(self) -> str:
        return str(self.job["metadata"]["uid"])

    @property
    def job_dir(self) -> Path:
        return self.state_dir / "jobs" / "default" / f"job-{self.uid[:8]}"

    def start_master(self, **env: str) -> subprocess.Popen[bytes]:
        given = {
            **{name: value for name, value in os.environ.items() if name != "CONVOY_CRASH_AT"},
            "CONVOY_STATE_DIR": str(self.state_dir),
            "CONVOY_JOB_DIR": str(self.job_dir),
            "CONVOY_JOB_TOKEN": TOKEN,
            "CONVOY_MASTER_PORT": str(self.port),
            names.ENV_JOB_UID: self.uid,
            names.ENV_POD_NAME: names.master_pod("job", len(self.masters)),
            **env,
        }
        with self.log.open("ab") as log:
            master = subprocess.Popen(
                [sys.executable, "-m", "convoy.cli.main", "master", "--job", "job", "--namespace", "default"],
                env=given,
                stdout=log,
                stderr=log,
            )
        self.masters.append(master)
        return master

    def kill_master(self) -> None:
        self.masters[-1].send_signal(signal.SIGKILL)
        self.masters[-1].wait(10)

    def status(self) -> dict[str, Any]:
        return dict(self.cluster.get(Kind.ELASTIC_JOB, "default", "job").get("status") or {})

    def training(self) -> dict[str, Any]:
        return dict(self.status().get("training") or {})

    def plans(self) -> dict[str, dict[str, Any]]:
        return {plan["metadata"]["name"]: plan for plan in self.cluster.list(Kind.SCALE_PLAN, "default").items}

    def pods(self) -> dict[str, str]:
        found = self.cluster.list(Kind.POD, "default", {names.LABEL_ROLE: names.WORKER}).items
        return {pod["metadata"]["name"]: (pod.get("status") or {}).get("phase", "Pending") for pod in found}

    def set_pod(self, name: str, phase: str, exit_code: int | None = None) -> None:
        status: dict[str, Any] = {"phase": phase}
        if exit_code is not None:
            status["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": exit_code}}}]
        self.cluster.apply_status(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"}, "status": status},
            field_manager="kubelet",
        )

    def wait_for_pods(self, *ids: int) -> None:
        wanted = {names.pod("job", "worker", one) for one in ids}
        until(lambda: wanted <= self.pods().keys(), f"pods {sorted(wanted)}")

    def scale(self, replicas: int, name: str = "mine") -> None:
        """A person's plan."""
        self.cluster.create(
            {
                "apiVersion": names.API_VERSION,
                "kind": "ScalePlan",
                "metadata": {
                    "name": name,
                    "namespace": "default",
                    "labels": {names.LABEL_SCALE_TYPE: names.SCALE_MANUAL},
                },
                "spec": {"ownerJob": "job", "replicaResourceSpecs": {"worker": {"replicas": replicas}}},
            },
            field_manager="person",
        )

    def close(self) -> None:
        for master in self.masters:
            if master.poll() is None:
                master.kill()
            master.wait(10)
        self._ended.set()
        self._operator.join(5)
        self.cluster.close()

    def _operate(self) -> None:
        while not self._ended.wait(0.03):
            if self.operating:
                with contextlib.suppress(ClusterError):
                    for plan in self.plans().values():
                        self._carry_out(plan)

    def _carry_out(self, plan: dict[str, Any]) -> None:
        spec, metadata = plan["spec"], plan["metadata"]
        if (plan.get("status") or {}).get("phase", "Pending") != "Pending" or "epoch" not in spec:
            return
        for order in spec.get("removePods", []):
            if self.pods().get(order["name"]) in ("Pending", "Running"):
                self.set_pod(order["name"], "Failed", 143)
        for order in spec.get("createPods", []):
            labels = names.pod_labels(
                "job", order["type"], node_id=order["id"], rank=order["rankIndex"], relaunches=order["relaunchCount"]
            )
            pod = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": order["name"],
                    "namespace": "default",
                    "labels": labels,
                    "ownerReferences": metadata["ownerReferences"],
                },
                "spec": {"containers": [{"name": "main", "command": ["true"]}]},
            }
            with contextlib.suppress(AlreadyExists):
                self.cluster.create(pod, field_manager="convoy-operator")
                self.set_pod(order["name"], "Running")
        status = {"phase": "Succeeded"}
        self.cluster.apply_status(
            {
                "apiVersion": names.API_VERSION,
                "kind": "ScalePlan",
                "metadata": {"name": metadata["name"], "namespace": "default"},
                "status": status,
            },
            field_manager="convoy-operator",
        )


class FakeAgent:
    """An agent as the contract has it: registers, follows directives, joins, reports, and does so again when the
    master was away. Its workers are a number that it counts.
    """

    def __init__(self, stage: Stage, rank: int, node_id: int, **registration: Any) -> None:
        self.rank = rank
        self.node_id = node_id
        self.name = names.pod("job", "worker", node_id)
        self.round = 0
        self.state = pb.WorkerGroup.IDLE
        self.step = -1
        self.members: list[pb.Member] = []
        self.directives: list[tuple[float, pb.Directive]] = []
        self.stopped: asyncio.Event = asyncio.Event()
        self.obeying = True
        self._stage = stage
        self._registration = registration
        self._channel = async_channel(f"127.0.0.1:{stage.port}")
        envelope = Envelope(stage.uid, TOKEN, 0, self.name, time.time_ns())
        self.caller = Caller(self._channel, envelope)
        self.stub = master_pb2_grpc.MasterStub(self._channel)
        self._tasks: list[asyncio.Task[Any]] = []
        self._leave = asyncio.Event()

    async def register(self, wait: float = 20.0) -> pb.RegisterResponse:
        running = self.state == pb.WorkerGroup.RUNNING
        request = pb.RegisterRequest(
            role="worker",
            rank=self.rank,
            node_id=self.node_id,
            host="127.0.0.1",
            processes=1,
            max_restarts=self._registration.get("max_restarts", 3),
            min_nodes=self._registration.get("min_nodes", 0),
            max_nodes=self._registration.get("max_nodes", 0),
            round=self.round if running else 0,
            step=self.step,
        )
        answer: pb.RegisterResponse = await self.caller.call(self.stub.Register, request, timeout=5, wait=wait)
        self.caller.learn_epoch(answer.epoch)
        return answer

    async def join(self, timeout: float = 20.0, wait: float = 20.0) -> pb.JoinResponse:
        request = pb.JoinRequest(
            rank=self.rank,
            local_world_size=1,
            host="127.0.0.1",
            store_port=10_000 + self.node_id,
            timeout_seconds=timeout,
            last_round=self.round,
        )
        answer: pb.JoinResponse = await self.caller.call(
            self.stub.JoinRendezvous, request, timeout=timeout + 5, wait=wait
        )
        return answer

    async def report(self, state: Any = None, failure: pb.Failure | None = None, **more: Any) -> pb.ReportAck:
        workers = pb.WorkerGroup(
            round=self.round, state=self.state if state is None else state, step=self.step, failure=failure
        )
        ack: pb.ReportAck = await self.caller.call(
            self.stub.Report, pb.NodeReport(workers=workers, **more), timeout=5, wait=20
        )
        self.caller.learn_epoch(ack.epoch)
        return ack

    async def start(self) -> None:
        """Register, and live from then on."""
        await self.register()
        self._tasks = [asyncio.ensure_future(self._follow()), asyncio.ensure_future(self._live())]

    async def fail(self, exit_code: int, *, peer_lost: bool = False) -> None:
        """Its workers end by a fault; it joins again."""
        self.state = pb.WorkerGroup.FAILED
        await self.report(failure=pb.Failure(exit_code=exit_code, peer_lost=peer_lost, message="last words"))
        self._leave.set()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._channel.close(None)

    async def _follow(self) -> None:
        while True:
            try:
                request = pb.DirectivesRequest(rank=self.rank)
                async for directive in self.caller.stream(self.stub.Directives, request):
                    self.directives.append((time.monotonic(), directive))
                    if directive.action == pb.Directive.STOP:
                        self.stopped.set()
                        return
                    leaves = directive.action in (pb.Directive.YIELD, pb.Directive.ABORT)
                    if leaves and directive.round == self.round and self.obeying:
                        aborted = directive.action == pb.Directive.ABORT
                        self.state = pb.WorkerGroup.IDLE if aborted else pb.WorkerGroup.YIELDED
                        self._leave.set()
            except Unavailable:
                await asyncio.sleep(0.05)
                with contextlib.suppress(ConvoyError):
                    await self.register()

    async def _live(self) -> None:
        while not self.stopped.is_set():
            world = await self.join(timeout=60)
            self.round, self.members = world.round, list(world.members)
            self.state = pb.WorkerGroup.RUNNING
            self._leave.clear()
            while not self._leave.is_set() and not self.stopped.is_set():
                self.step += 1
                await self.report()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await self._leave.wait()
            if self.state == pb.WorkerGroup.YIELDED:
                await self.report()


@asynccontextmanager
async def agents(stage: Stage, *ids: tuple[int, int], **registration: Any) -> AsyncIterator[list[FakeAgent]]:
    """Agents of those (rank, id), alive."""
    made = [FakeAgent(stage, rank, node_id, **registration) for rank, node_id in ids]
    try:
        await asyncio.gather(*(agent.start() for agent in made))
        yield made
    finally:
        await asyncio.gather(*(agent.close() for agent in made))


async def eventually(condition: Callable[[], Any], what: str, timeout: float = 15.0) -> Any:
    """Wait for a true answer; fail naming what was awaited."""
    end = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= end:
            raise AssertionError(f"waited {timeout:g} s for {what}; last answer: {answer!r}")
        await asyncio.sleep(0.02)


def stage_of(state_dir: Path, **changes: Any) -> Iterator[Stage]:
    stage = Stage(state_dir, **changes)
    try:
        yield stage
    finally:
        stage.close()
