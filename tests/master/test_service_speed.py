"""How quick the master is: figures are printed (pytest -s), floors are asserted far below them."""

from __future__ import annotations

import asyncio
import time
from contextlib import closing
from pathlib import Path

from convoy.core.api.v1 import master_pb2 as pb
from support.master_stage import FakeAgent, Stage, agents, eventually


def test_a_master_serves_soon_after_it_is_started(state_dir: Path) -> None:
    with closing(Stage(state_dir)) as stage:

        async def play() -> float:
            agent = FakeAgent(stage, 0, 0)
            began = time.monotonic()
            stage.start_master()
            try:
                await agent.register()
                return time.monotonic() - began
            finally:
                await agent.close()

        seconds = asyncio.run(play())
        print(f"\nexec -> first answer: {seconds:.2f} s")
        assert seconds < 5


def test_directives_arrive_at_once(state_dir: Path) -> None:
    with closing(Stage(state_dir, worker__replicas=2, worker__maxReplicas=4)) as stage:
        stage.start_master()
        stage.wait_for_pods(0, 1)

        async def play() -> list[float]:
            late: list[float] = []
            async with agents(stage, (0, 0), (1, 1), max_restarts=99) as (one, two):
                for number in range(1, 11):
                    await eventually(lambda known=number: one.round == two.round == known, f"round {number}")
                    await eventually(lambda: one.state == two.state == pb.WorkerGroup.RUNNING, "workers")
                    await asyncio.sleep(0.05)
                    one.step += 1
                    began = time.monotonic()
                    seen = len(two.directives)
                    await one.fail(-9)
                    await eventually(lambda known=seen: len(two.directives) > known, "ABORT")
                    late.append(two.directives[seen][0] - began)
                    assert two.directives[seen][1].action == pb.Directive.ABORT
            return late

        late = sorted(asyncio.run(play()))
        print(f"\nfault reported -> ABORT at the peer: median {late[5] * 1e3:.1f} ms, worst {late[-1] * 1e3:.1f} ms")
        assert late[5] < 0.5


def test_many_agents_report(state_dir: Path) -> None:
    with closing(Stage(state_dir, worker__replicas=64)) as stage:
        stage.start_master()
        stage.wait_for_pods(*range(64))

        async def play() -> float:
            made = [FakeAgent(stage, rank, rank) for rank in range(64)]
            try:
                await asyncio.gather(*(agent.register() for agent in made))
                worlds = await asyncio.gather(*(agent.join() for agent in made))
                assert {world.round for world in worlds} == {1}
                for agent in made:
                    agent.round, agent.state = 1, pb.WorkerGroup.RUNNING
                load = pb.NodeReport.DESCRIPTOR.fields_by_name["load"].message_type._concrete_class(cpu_cores=1.0)

                async def report(agent: FakeAgent) -> None:
                    for _ in range(20):
                        agent.step += 1
                        await agent.report(load=load)

                began = time.monotonic()
                await asyncio.gather(*(report(agent) for agent in made))
                return 64 * 20 / (time.monotonic() - began)
            finally:
                await asyncio.gather(*(agent.close() for agent in made))

        rate = asyncio.run(play())
        print(f"\nreports of 64 agents: {rate:.0f}/s")
        assert rate > 100
