"""This node alone, without a master: workers supervised, restarted with a growing pause up to --max-restarts."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Mapping
from typing import Any

from convoy.agent.channel import Channel
from convoy.agent.group import WorkerGroup
from convoy.agent.options import Options
from convoy.agent.outcome import End
from convoy.agent.ports import Reservation
from convoy.agent.spawner import Spawner
from convoy.agent.stopping import StopRequest
from convoy.agent.world import Member, World
from convoy.core.process import logs

log = logs.get("agent")
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0


def pause_before(restart: int) -> float:
    """Return the seconds to wait before restart number ``restart``, from 1."""
    return float(min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (restart - 1)))


async def run(options: Options, spawner: Spawner, environment: Mapping[str, str]) -> int:
    """Run the script until it ends for good; return the exit status."""
    spawner.attach()
    stop = StopRequest(options.signals)
    channel = Channel(lambda pid, message: group.heed(pid, message))
    group = WorkerGroup(options, spawner, channel, environment, lambda message: None)
    await channel.open()
    try:
        restarts = 0
        while True:
            with Reservation(options.master_port) as port:
                member = Member(options.node_rank, options.processes, 0, "127.0.0.1", port.number)
                await group.start(World(restarts + 1, (member,), 0), restarts)
                ended = asyncio.create_task(group.wait())
                first: list[asyncio.Future[Any]] = [ended, stop.task]
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
                if not ended.done():
                    ended.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await ended
                    return await stop_all(group, stop, options)
            outcome = ended.result()
            if outcome.end is not End.FAILED:
                return 0
            describe = {"local_rank": outcome.local_rank, "status": outcome.status, "step": group.step}
            if restarts >= options.max_restarts:
                log.error("worker failed", restarts=restarts, **describe)
                return outcome.exit_code or 1
            restarts += 1
            log.warning("worker failed, restarting", restart=restarts, of=options.max_restarts, **describe)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(stop.task), pause_before(restarts))
                return 128 + stop.task.result()
    finally:
        await group.stop(0.0)
        await channel.close()
        stop.close()


async def stop_all(group: WorkerGroup, stop: StopRequest, options: Options) -> int:
    """Hand the signal on to the workers and end them; return the launcher's exit status."""
    number = signal.Signals(stop.task.result())
    log.info("stopping", signal=number.name, grace_seconds=options.shutdown_timeout)
    await group.stop(options.shutdown_timeout, number)
    return 128 + number
