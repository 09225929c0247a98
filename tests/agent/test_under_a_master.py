"""Real agents with real workers under a master that a test plays."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from convoy.core.api.v1 import master_pb2 as pb
from support.launches import COMMAND, script
from support.scripted_master import ScriptedMaster, serving

GROUP, DIRECTIVE = pb.WorkerGroup, pb.Directive

WORKER = """
import json, os, pathlib, socket, sys, time
here = pathlib.Path(__file__).parent
rank, number = os.environ["RANK"], int(os.environ["CONVOY_ROUND"])
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["CONVOY_AGENT_SOCKET"])
def tell(kind, **fields):
    line.sendall(json.dumps({"type": kind, **fields}).encode() + b"\\n")
def asked():
    try:
        return json.loads(line.recv(4096, socket.MSG_DONTWAIT))
    except BlockingIOError:
        return {}
tell("hello", local_rank=0, pid=os.getpid())
(here / f"place-{number}-{rank}").write_text(f"{os.environ['WORLD_SIZE']} {os.environ['MASTER_PORT']} {os.getpid()}")
step = 0
while True:
    step += 1
    tell("step", step=step)
    if step == 3:
        tell("speed", seconds=1.0, first_step=1, last_step=3, samples=96.0, workers=1, round=number)
    if asked() == {"type": "yield", "round": number}:
        tell("yielded", step=step)
        sys.exit(0)
    if (here / f"fail-{number}-{rank}").exists():
        sys.exit("the worker's last words")
    if (here / f"lost-{number}-{rank}").exists():
        tell("peer_lost", message="connection closed by peer")
        sys.exit(75)
    if (here / "finish").exists():
        sys.exit(0)
    time.sleep(0.02)
"""
"""A worker that speaks as the trainer does, without torch: this is about agents."""


@asynccontextmanager
async def agent(
    port: int, path: Path, rank: int, *, node_id: int | None = None, flags: tuple[str, ...] = ()
) -> AsyncIterator[asyncio.subprocess.Process]:
    env = os.environ | {
        "DLROVER_MASTER_ADDR": f"127.0.0.1:{port}",
        "NODE_RANK": str(rank),
        "NODE_ID": str(rank if node_id is None else node_id),
        "POD_NAME": f"pod-{rank}",
        "CONVOY_JOB_TOKEN": "the secret",
    }
    flags = ("--nnodes=1:2", "--max-restarts=3", "--shutdown-timeout=2", "--start-method=spawn", *flags)
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *flags, str(path), env=env, stderr=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def place(directory: Path, number: int, rank: int) -> tuple[int, int, int]:
    path = directory / f"place-{number}-{rank}"
    async with asyncio.timeout(40):
        while not path.exists() or not path.read_text():
            await asyncio.sleep(0.02)
    world, port, pid = path.read_text().split()
    return int(world), int(port), int(pid)


def test_a_node_joins_trains_reports_and_succeeds(tmp_path: Path) -> None:
    path = script(tmp_path, WORKER)

    async def scenario() -> None:
        master = ScriptedMaster()
        async with serving(master) as port, agent(port, path, 1, node_id=4) as process:
            answer = await master.complete(1, 1)
            told = master.registered[0]
            assert (told.rank, told.node_id, told.role, told.host) == (1, 4, "worker", "127.0.0.1")
            assert (told.min_nodes, told.max_nodes, told.max_restarts, told.round) == (1, 2, 3, 0)
            world, store, pid = await place(tmp_path, 1, 0)
            assert (world, store) == (1, answer.members[0].store_port)
            running = await master.state(GROUP.RUNNING, 1, sender="pod-1")
            assert list(running.workers.pids) == [pid]
            await master.until(lambda: any(report.speed for _, report in master.reports), "a window of speed")
            sample = next(report.speed[0] for _, report in master.reports if report.speed)
            assert (sample.samples, sample.round, sample.warming) == (96.0, 1, False)
            await master.until(lambda: any(report.HasField("load") for _, report in master.reports), "a load")
            load = next(report.load for _, report in master.reports if report.HasField("load"))
            assert load.node == "pod-1"
            assert 0 <= load.cpu_cores < 64
            assert load.memory_bytes > 20e6
            await master.until(lambda: master.reports[-1][1].workers.step > 5, "steps")
            (tmp_path / "finish").write_text("")
            await master.state(GROUP.SUCCEEDED, 1)
            assert process.returncode is None
            await master.direct(DIRECTIVE.STOP, 1, 1)
            assert await asyncio.wait_for(process.wait(), 10) == 0
            errors = (await process.stderr.read()).decode() if process.stderr else ""
            assert len(errors.splitlines()) <= 3
            assert "the secret" not in errors

    asyncio.run(scenario())


def test_a_node_check_that_is_asked_for_is_reported_as_skipped(tmp_path: Path) -> None:
    path = script(tmp_path, WORKER)

    async def scenario() -> None:
        master = ScriptedMaster()
        async with serving(master) as port, agent(port, path, 0, flags=("--network-check",)) as process:
            await master.complete(1, 0)

            def skipped() -> list[str]:
                events = [event for _, report in master.reports for event in report.events]
                return [event.message for event in events if event.reason == "NodeCheckSkipped"]

            await master.until(lambda: bool(skipped()), "the event")
            assert skipped() == ["--network-check: this version has no node check; going on without it"]
            (tmp_path / "finish").write_text("")
            await master.state(GROUP.SUCCEEDED, 1)
            await master.direct(DIRECTIVE.STOP, 1, 0)
            assert await asyncio.wait_for(process.wait(), 10) == 0

    asyncio.run(scenario())


def test_a_newcomer_is_let_in_at_a_step_boundary(tmp_path: Path) -> None:
    path = script(tmp_path, WORKER)

    async def scenario() -> None:
        master = ScriptedMaster()
        async with serving(master) as port, agent(port, path, 0):
            await master.complete(1, 0)
            await master.until(lambda: any(report.workers.step > 0 for _, report in master.reports), "a step")
            async with agent(port, path, 1):
                await master.until(lambda: 1 in master.joined, "the newcomer to wait")
                await master.direct(DIRECTIVE.YIELD, 1, 0)
                left = await master.state(GROUP.YIELDED, 1, sender="pod-0")
                assert left.workers.restarts == 0
                assert left.workers.step > 0
                await master.until(lambda: 0 in master.joined, "the member to join again")
                assert master.joined[0][0].last_round == 1
                await master.complete(2, 0, 1)
                first, second = await place(tmp_path, 2, 0), await place(tmp_path, 2, 1)
                assert first[0] == second[0] == 2
                assert first[1] == second[1]
                await master.state(GROUP.RUNNING, 2, sender="pod-1")
                await master.direct(DIRECTIVE.STOP, 2, 0, 1)

    asyncio.run(scenario())


def test_a_fault_is_told_before_the_node_joins_again_and_the_other_is_aborted(tmp_path: Path) -> None:
    path = script(tmp_path, WORKER)

    async def scenario() -> None:
        master = ScriptedMaster()
        async with serving(master) as port, agent(port, path, 0), agent(port, path, 1):
            await master.complete(1, 0, 1)
            _, _, survivor = await place(tmp_path, 1, 0)
            _, _, victim = await place(tmp_path, 1, 1)
            os.kill(victim, signal.SIGKILL)
            failed = await master.state(GROUP.FAILED, 1, sender="pod-1")
            failure = failed.workers.failure
            assert (failure.exit_code, failure.peer_lost, failed.workers.restarts) == (-9, False, 1)
            await master.direct(DIRECTIVE.ABORT, 1, 0)
            await master.complete(2, 0, 1)
            assert not psutil.pid_exists(survivor)
            _, _, pid = await place(tmp_path, 2, 0)
            (tmp_path / "lost-2-0").write_text("")
            lost = await master.state(GROUP.FAILED, 2, sender="pod-0")
            assert lost.workers.failure.peer_lost
            assert lost.workers.failure.message == "connection closed by peer"
            assert lost.workers.restarts == 0
            (tmp_path / "fail-2-1").write_text("")
            words = await master.state(GROUP.FAILED, 2, sender="pod-1")
            assert (words.workers.failure.exit_code, words.workers.restarts) == (1, 2)
            assert words.workers.failure.message == "the worker's last words"
            await master.until(lambda: {0, 1} <= set(master.joined), "both to join again")
            assert not psutil.pid_exists(pid)

    asyncio.run(scenario())


def test_a_master_that_is_replaced_touches_no_worker(tmp_path: Path) -> None:
    path = script(tmp_path, WORKER)

    async def scenario() -> None:
        first, second = ScriptedMaster(epoch=1), ScriptedMaster(epoch=2)
        async with contextlib.AsyncExitStack() as stack:
            async with serving(first) as port:
                await stack.enter_async_context(agent(port, path, 0))
                await first.complete(1, 0)
                _, _, pid = await place(tmp_path, 1, 0)
                await first.state(GROUP.RUNNING, 1)
                await first.until(lambda: first.reports[-1][1].workers.step > 3, "steps")
            await asyncio.sleep(1.0)
            async with serving(second, port):
                await second.until(lambda: second.registered, "the agent to come back")
                told = second.registered[0]
                assert told.round == 1
                assert told.step > 3
                report = await second.state(GROUP.RUNNING, 1)
                assert list(report.workers.pids) == [pid]
                assert report.workers.restarts == 0
            third = ScriptedMaster(epoch=1)  # the first one again: a zombie
            async with serving(third, port):
                await third.direct(DIRECTIVE.STOP, 1, 0)
                await asyncio.sleep(1.5)
                assert third.registered == []
                assert psutil.pid_exists(pid)

    asyncio.run(scenario())


def test_a_script_that_doesnt_listen_is_ended_for_a_yield(tmp_path: Path) -> None:
    path = script(tmp_path, "import time\ntime.sleep(100)\n")

    async def scenario() -> None:
        master = ScriptedMaster()
        async with serving(master) as port, agent(port, path, 0):
            await master.complete(1, 0)
            await master.state(GROUP.RUNNING, 1)
            await master.direct(DIRECTIVE.YIELD, 1, 0)
            await master.until(lambda: 0 in master.joined, "the node to join again", timeout=10)

    asyncio.run(scenario())


def test_a_signal_ends_agent_and_workers(tmp_path: Path) -> None:
    path = script(tmp_path, WORKER)

    async def scenario() -> None:
        master = ScriptedMaster()
        async with serving(master) as port, agent(port, path, 0) as process:
            await master.complete(1, 0)
            _, _, pid = await place(tmp_path, 1, 0)
            process.send_signal(signal.SIGTERM)
            assert await asyncio.wait_for(process.wait(), 10) == 143
            assert not psutil.pid_exists(pid)
            errors = (await process.stderr.read()).decode() if process.stderr else ""
            assert "Traceback" not in errors

    asyncio.run(scenario())


def test_a_world_that_doesnt_come_about_says_who_is_missing(tmp_path: Path) -> None:
    path = script(tmp_path, WORKER)

    async def scenario() -> None:
        master = ScriptedMaster()
        async with serving(master) as port:
            env = os.environ | {"DLROVER_MASTER_ADDR": f"127.0.0.1:{port}"}
            process = await asyncio.create_subprocess_exec(
                *COMMAND, "--nnodes=2", "--rdzv-conf=join_timeout=2", "--start-method=spawn", str(path),
                env=env, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            _, errors = await asyncio.wait_for(process.communicate(), 20)
            assert process.returncode == 1
            assert b"missing: rank 1" in errors

    asyncio.run(scenario())


def test_a_port_in_use_is_told_once_with_exit_status_2(tmp_path: Path) -> None:
    async def scenario() -> None:
        with socket.create_server(("", 0)) as taken:
            flag = f"--master-port={taken.getsockname()[1]}"
            async with serving(ScriptedMaster()) as port:
                env = os.environ | {"DLROVER_MASTER_ADDR": f"127.0.0.1:{port}"}
                process = await asyncio.create_subprocess_exec(
                    *COMMAND, "--nnodes=2", flag, "--start-method=spawn", str(script(tmp_path, "")),
                    env=env, stderr=asyncio.subprocess.PIPE,
                )  # fmt: skip
                _, errors = await asyncio.wait_for(process.communicate(), 20)
        assert process.returncode == 2
        assert errors.decode().count(flag) == 1
        assert "Traceback" not in errors.decode()

    asyncio.run(scenario())


def test_telling_the_master_of_the_last_round_is_part_of_the_joins_deadline(tmp_path: Path) -> None:
    path = script(tmp_path, WORKER)

    async def scenario() -> None:
        master = ScriptedMaster()
        async with contextlib.AsyncExitStack() as stack:
            async with serving(master) as port:
                flags = ("--rdzv-conf=join_timeout=4",)
                process = await stack.enter_async_context(agent(port, path, 0, flags=flags))
                await master.complete(1, 0)
                await master.state(GROUP.RUNNING, 1)
            begin = time.monotonic()
            (tmp_path / "fail-1-0").write_text("")
            assert await asyncio.wait_for(process.wait(), 20) == 1
            assert 3.5 < time.monotonic() - begin < 7, "not twice"

    asyncio.run(scenario())
