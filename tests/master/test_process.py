"""The master as a process, on a local cluster, with agents over real sockets."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import DeadlineMissed, NotFound, StaleEpoch, StaleIncarnation, Unauthenticated
from convoy.core.api.v1 import master_pb2 as pb
from convoy.core.rpc.caller import Caller
from support.manifests import job as job_manifest
from support.master_stage import TOKEN, FakeAgent, Stage, agents, eventually
from support.waiting import until


@pytest.fixture
def new_stage(state_dir: Path) -> Iterator[Callable[..., Stage]]:
    with ExitStack() as stack:

        def make(**changes: Any) -> Stage:
            stage = Stage(state_dir, **changes)
            stack.callback(stage.close)
            return stage

        yield make


@contextmanager
def running(stage: Stage, *ids: int, **env: str) -> Iterator[None]:
    stage.start_master(**env)
    stage.wait_for_pods(*ids)
    yield


def test_a_job_starts_trains_and_ends(new_stage):
    stage = new_stage(worker__replicas=2)

    async def play() -> None:
        async with agents(stage, (0, 0), (1, 1)) as (one, two):
            await eventually(lambda: one.round == two.round == 1, "round 1")
            assert [(member.node_rank, member.first_process_rank) for member in one.members] == [(0, 0), (1, 1)]
            assert one.members[0].store_port == 10_000
            await eventually(lambda: stage.training().get("step", 0) > 2, "steps on the status")
            assert stage.training()["state"] == "Running"
            for agent in (one, two):
                agent.state = pb.WorkerGroup.SUCCEEDED
            await eventually(lambda: one.stopped.is_set() and two.stopped.is_set(), "STOP")
            assert one.directives[-1][1].exit_code == 0
        for name in stage.pods():
            stage.set_pod(name, "Succeeded", 0)

    with running(stage, 0, 1):
        asyncio.run(play())
        assert stage.masters[-1].wait(10) == 0
    assert stage.training()["state"] == "Succeeded"
    assert stage.status()["master"] == {"epoch": 1, "pod": "elasticjob-job-dlrover-master-0"}
    condition = next(one for one in stage.status()["conditions"] if one["type"] == "BrainAvailable")
    assert (condition["status"], condition["reason"]) == ("False", "NoBrain")


def test_kill_9_while_a_rendezvous_is_half_full(new_stage):
    stage = new_stage(worker__replicas=3)

    async def play() -> None:
        async with agents(stage, (0, 0), (2, 2)) as (one, three):
            await asyncio.sleep(0.3)
            assert one.round == 0
            stage.kill_master()
            stage.start_master()
            async with agents(stage, (1, 1)) as (two,):
                await eventually(lambda: one.round == two.round == three.round == 1, "round 1")
                assert [member.node_rank for member in two.members] == [0, 1, 2]

    with running(stage, 0, 1, 2):
        asyncio.run(play())
    assert sorted(stage.pods()) == [f"job-edljob-worker-{number}" for number in range(3)]


def test_a_killed_master_costs_no_restart_and_no_round(new_stage):
    stage = new_stage(worker__replicas=2)

    async def play() -> None:
        async with agents(stage, (0, 0), (1, 1)) as (one, two):
            await eventually(lambda: one.round == two.round == 1, "round 1")
            await eventually(lambda: one.step > 3, "steps")
            for _ in range(2):
                stage.kill_master()
                before = one.step
                stage.start_master()
                await eventually(lambda known=before: one.step > known + 3, "reports to the next master")
            await asyncio.sleep(1.2)
            orders = {directive.action for _, directive in (*one.directives, *two.directives)}
            assert orders == {pb.Directive.TRAIN}
            assert (one.round, two.round) == (1, 1)
            versions = [directive.version for _, directive in one.directives]
            assert versions == sorted(versions)

    with running(stage, 0, 1):
        asyncio.run(play())
    training = stage.training()
    assert (training["restarts"], training["relaunches"], training["round"]) == (0, 0, 1)
    assert stage.status()["master"]["epoch"] == 3
    assert list(stage.plans()) == ["job-scaleplan-1"]


def test_a_lost_node_is_replaced_while_the_others_go_on(new_stage):
    stage = new_stage(worker__replicas=2, worker__minReplicas=1, worker__maxReplicas=4)

    async def play() -> None:
        async with agents(stage, (0, 0)) as (one,):
            async with agents(stage, (1, 1)) as (two,):
                await eventually(lambda: one.round == two.round == 1, "round 1")
                await eventually(lambda: one.step > 2, "steps")
            stage.set_pod("job-edljob-worker-1", "Failed", 137)
            await eventually(lambda: one.round == 2, "the survivor's round")
            assert len(one.members) == 1
            await eventually(lambda: "job-edljob-worker-2" in stage.pods(), "the replacement")
            async with agents(stage, (1, 2)) as (new,):
                await eventually(lambda: one.round == new.round == 3, "the round with the new node")
                assert [member.node_rank for member in one.members] == [0, 1]

    with running(stage, 0, 1):
        asyncio.run(play())
        until(lambda: stage.training().get("relaunches") == 1, "the relaunch on the status")
    assert stage.training()["restarts"] == 0
    plan = stage.plans()["job-scaleplan-2"]
    assert plan["spec"]["explanation"]["reason"] == "NodeReplaced"
    assert plan["spec"]["createPods"][0] == {
        "name": "job-edljob-worker-2", "type": "worker", "id": 2, "rankIndex": 1, "relaunchCount": 1,
    }  # fmt: skip


def test_a_persons_plan_grows_and_shrinks_the_job(new_stage):
    stage = new_stage(worker__replicas=1, worker__maxReplicas=4)

    async def play() -> None:
        async with agents(stage, (0, 0)) as (one,):
            await eventually(lambda: one.round == 1 and one.step > 1, "round 1")
            stage.scale(2, "grow")
            await eventually(lambda: "job-edljob-worker-1" in stage.pods(), "the new pod")
            async with agents(stage, (1, 1)) as (two,):
                await eventually(lambda: one.round == two.round == 2, "round 2")
                await eventually(lambda: two.step > 1, "steps")
                stage.scale(1, "shrink")
                await asyncio.wait_for(two.stopped.wait(), 10)
                await eventually(lambda: one.round == 3, "round 3")
                assert len(one.members) == 1
                stage.set_pod("job-edljob-worker-1", "Succeeded", 0)
            await eventually(lambda: len(stage.plans()) == 5, "the plan that removes the pod")

    with running(stage, 0):
        asyncio.run(play())
    plans = stage.plans()
    assert plans["grow"]["status"]["phase"] == plans["shrink"]["status"]["phase"] == "Succeeded"
    assert plans["job-scaleplan-3"]["spec"]["removePods"][0]["name"] == "job-edljob-worker-1"
    assert stage.training()["restarts"] == stage.training()["relaunches"] == 0


def test_who_may_not_speak_is_refused(new_stage):
    stage = new_stage(worker__replicas=2)

    async def play() -> None:
        async with agents(stage, (0, 0), (1, 1)) as (one, two):
            await eventually(lambda: one.round == two.round == 1, "round 1")
            now = time.time_ns()
            for token, uid, error in (("wrong", stage.uid, Unauthenticated), (TOKEN, "another", Unauthenticated)):
                caller = Caller(one._channel, Envelope(uid, token, 0, one.name, now))
                with pytest.raises(error):
                    await caller.call(one.stub.GetKey, pb.KeyRequest(key="k"), timeout=5)
            old = Caller(one._channel, Envelope(stage.uid, TOKEN, 0, one.name, 1))
            with pytest.raises(StaleIncarnation):
                await old.call(one.stub.Report, pb.NodeReport(), timeout=5)
            stranger = Caller(one._channel, Envelope(stage.uid, TOKEN, 0, "job-edljob-worker-77", now))
            with pytest.raises(NotFound, match="register first"):
                await stranger.call(one.stub.Report, pb.NodeReport(), timeout=5)
            ahead = Caller(one._channel, Envelope(stage.uid, TOKEN, 99, one.name, now))
            with pytest.raises(StaleEpoch):
                await ahead.call(one.stub.Report, pb.NodeReport(), timeout=5)

    with running(stage, 0, 1):
        asyncio.run(play())
        assert stage.masters[-1].wait(10) == 3, "a master that hears of a newer one stops"
    assert stage.training()["restarts"] == 0


def test_an_older_master_stops_when_a_newer_one_takes_the_job(new_stage):
    stage = new_stage()
    with running(stage, 0):
        old = stage.masters[-1]
        port, stage.port = stage.port, 0
        stage.start_master()
        stage.port = port
        assert old.wait(10) == 3
        until(lambda: stage.status()["master"]["epoch"] == 2, "the newer epoch")
        assert stage.masters[-1].poll() is None


def test_a_join_that_isnt_answered_says_who_is_missing(new_stage):
    stage = new_stage(worker__replicas=2)

    async def play() -> None:
        agent = FakeAgent(stage, 0, 0)
        try:
            await agent.register()
            with pytest.raises(DeadlineMissed, match=r"1 of 2 nodes joined.*job-edljob-worker-1 \(Expected\)"):
                await agent.join(timeout=0.5)
        finally:
            await agent.close()

    with running(stage, 0, 1):
        asyncio.run(play())


def test_a_port_in_use_is_refused_with_exit_status_2(new_stage):
    import socket

    stage = new_stage()
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", stage.port))
        holder.listen()
        master = stage.start_master()
        assert master.wait(15) == 2
    assert "in use" in stage.log.read_text()


def test_sigterm_ends_a_master_cleanly_and_the_job_goes_on_with_the_next(new_stage):
    stage = new_stage()

    async def play() -> None:
        async with agents(stage, (0, 0)) as (one,):
            await eventually(lambda: one.round == 1 and one.step > 1, "round 1")
            stage.masters[-1].send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(stage.masters[-1].wait, 10) == 0
            assert stage.training()["state"] == "Running"
            before = one.step
            stage.start_master()
            await eventually(lambda: one.step > before + 2, "reports to the next master")

    with running(stage, 0):
        asyncio.run(play())


@pytest.mark.parametrize(
    "point",
    [
        "master.state.before-save:2",
        "master.state.after-save:2",
        "files.before-rename:3",
        "master.before-actions:3",
        "master.before-plan",
        "master.after-plan",
        "master.state.after-save:5",
        "master.before-actions:5",
    ],
)
def test_dying_between_any_two_writes_loses_nothing(new_stage, point):
    stage = new_stage(worker__replicas=2)

    async def keep_a_master() -> None:
        while True:
            if stage.masters[-1].poll() is not None:
                stage.start_master()
            await asyncio.sleep(0.05)

    async def play() -> None:
        keeper = asyncio.ensure_future(keep_a_master())
        try:
            await asyncio.to_thread(stage.wait_for_pods, 0, 1)
            async with agents(stage, (0, 0), (1, 1)) as (one, two):
                await eventually(lambda: one.round == two.round >= 1 and one.step > 2, "training")
                await eventually(lambda: stage.training().get("nodes") == 2, "the status")
        finally:
            keeper.cancel()

    stage.start_master(CONVOY_CRASH_AT=point)
    asyncio.run(play())
    assert stage.masters[0].returncode == -9, "the point was passed"
    assert sorted(stage.pods()) == ["job-edljob-worker-0", "job-edljob-worker-1"]
    assert stage.training()["restarts"] == stage.training()["relaunches"] == 0


def test_keys_and_shards_survive_the_master(new_stage):
    stage = new_stage()

    async def play() -> None:
        agent = FakeAgent(stage, 0, 0)
        call, stub = agent.caller.call, agent.stub
        try:
            await agent.register()
            await call(stub.SetKey, pb.KeyValue(key="k", value=b"\x00v"), timeout=5)
            assert (await call(stub.AddKey, pb.AddRequest(key="n", amount=2), timeout=5)).value == 2
            await call(stub.RegisterDataset, pb.Dataset(name="d", size=10, shard_size=4), timeout=5)
            first = await call(stub.NextShard, pb.ShardRequest(dataset="d"), timeout=5)
            second = await call(stub.NextShard, pb.ShardRequest(dataset="d"), timeout=5)
            await call(stub.FinishShard, pb.ShardDone(dataset="d", id=first.id), timeout=5)
            stage.kill_master()
            stage.start_master()
            await agent.register()
            assert (await call(stub.GetKey, pb.KeyRequest(key="k"), timeout=5, wait=10)).value == b"\x00v"
            assert (await call(stub.AddKey, pb.AddRequest(key="n", amount=3), timeout=5)).value == 5
            third = await call(stub.NextShard, pb.ShardRequest(dataset="d"), timeout=5)
            assert [(one.start, one.end) for one in (first, second, third)] == [(0, 4), (4, 8), (8, 10)]
            with pytest.raises(DeadlineMissed, match="still held by job-edljob-worker-0"):
                await call(stub.NextShard, pb.ShardRequest(dataset="d", timeout_seconds=0.2), timeout=5)
            for shard in (second, third):
                await call(stub.FinishShard, pb.ShardDone(dataset="d", id=shard.id), timeout=5)
            assert (await call(stub.NextShard, pb.ShardRequest(dataset="d"), timeout=5)).id == -1
            waiting = asyncio.ensure_future(
                call(stub.GetKey, pb.KeyRequest(key="later", timeout_seconds=5), timeout=8)
            )
            await asyncio.sleep(0.1)
            await call(stub.SetKey, pb.KeyValue(key="later", value=b"now"), timeout=5)
            assert (await waiting).value == b"now"
        finally:
            await agent.close()

    with running(stage, 0):
        asyncio.run(play())


def test_a_state_of_a_newer_version_is_refused(new_stage):
    stage = new_stage()
    folder = stage.job_dir / "master"
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"kind": "master-state", "schema": 99, "state": {}}))
    master = stage.start_master()
    assert master.wait(15) == 2
    assert "upgrade" in stage.log.read_text()


def test_a_strategy_that_isnt_run_fails_the_job_and_says_so(new_stage):
    stage = new_stage(spec__distributionStrategy="ParameterServerStrategy")
    assert stage.start_master().wait(15) == 0
    assert (stage.training()["state"], stage.training()["reason"]) == ("Failed", "NotSupported")
    assert os.listdir(stage.job_dir)


def test_other_machines_are_not_served_without_a_token(new_stage):
    stage = new_stage()
    assert stage.start_master(CONVOY_MASTER_HOST="0.0.0.0", CONVOY_JOB_TOKEN="").wait(15) == 2
    assert "CONVOY_JOB_TOKEN" in stage.log.read_text()
    assert "master" not in stage.status()


def test_a_shard_that_a_lost_node_is_given_while_it_waits_is_handed_out_again(new_stage):
    stage = new_stage(worker__replicas=2)

    async def play() -> None:
        holder, waiter = FakeAgent(stage, 0, 0), FakeAgent(stage, 1, 1)
        try:
            await holder.register()
            await waiter.register()
            await holder.caller.call(
                holder.stub.RegisterDataset, pb.Dataset(name="d", size=4, shard_size=4), timeout=5
            )
            request = pb.ShardRequest(dataset="d", timeout_seconds=20)
            shard = await holder.caller.call(holder.stub.NextShard, request, timeout=5)
            waiting = asyncio.ensure_future(waiter.caller.call(waiter.stub.NextShard, request, timeout=20))
            await asyncio.sleep(0.2)
            stage.set_pod(waiter.name, "Failed", 137)
            await eventually(lambda: "job-edljob-worker-2" in stage.pods(), "the waiter's replacement")
            done = pb.ShardDone(dataset="d", id=shard.id, failed=True)
            await holder.caller.call(holder.stub.FinishShard, done, timeout=5)
            assert (await waiting).id == shard.id, "its call was still open"
            again = await holder.caller.call(holder.stub.NextShard, request, timeout=10)
            assert again.id == shard.id
        finally:
            await holder.close()
            await waiter.close()

    with running(stage, 0, 1):
        asyncio.run(play())


def test_a_job_that_is_edited_into_a_wrong_one_keeps_its_master_and_gets_another(new_stage):
    stage = new_stage(worker__replicas=1, worker__minReplicas=1, worker__maxReplicas=2)

    async def play() -> None:
        async with agents(stage, (0, 0)) as (one,):
            await eventually(lambda: one.round == 1 and one.step > 1, "round 1")
            wrong = job_manifest(spec__distributionStrategy="ParameterServerStrategy")
            stage.cluster.apply(wrong, field_manager="convoy-cli")
            await asyncio.sleep(0.3)
            assert stage.masters[-1].poll() is None
            stage.kill_master()
            stage.start_master()
            before = one.step
            await eventually(lambda: one.step > before + 3, "reports to the next master")
            await eventually(lambda: stage.status()["master"]["epoch"] == 2, "its epoch")
            stage.set_pod("job-edljob-worker-0", "Failed", 137)
            await eventually(lambda: "job-edljob-worker-1" in stage.pods(), "the lost node's replacement")

    with running(stage, 0):
        asyncio.run(play())
    assert stage.training()["state"] == "Running"
    assert stage.masters[-1].poll() is None
