"""The workers of one node in one round: started together, watched by events, ended together."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from convoy.agent.channel import Channel
from convoy.agent.messages import Message
from convoy.agent.options import Options
from convoy.agent.outcome import Account, End, Outcome, judge
from convoy.agent.output import Outputs
from convoy.agent.spawner import Command, Process, Spawner
from convoy.agent.world import World, worker_environment

_FAULT_GRACE = 0.3
"""Seconds in which a worker of this node that is at fault shows after another one lost its peer."""
_PEER_LOST_GRACE = 2.0
"""Seconds in which a worker that lost its peer may end by itself."""

Listener = Callable[[Message], None]


class Worker:
    """One worker with what it told and writes."""

    def __init__(self, local_rank: int, process: Process, outputs: Outputs) -> None:
        self.local_rank, self.process, self.outputs = local_rank, process, outputs
        self.order = 0
        self.yielded = False
        self.peer_lost: str | None = None

    def account(self) -> Account:
        """Return what is known of it."""
        exited = self.process.exited
        status = exited.result() if exited.done() else None
        return Account(self.local_rank, status, self.order, self.yielded, self.peer_lost)


class WorkerGroup:
    """Starts, watches and stops the workers of this node. One round at a time."""

    def __init__(
        self, options: Options, spawner: Spawner, channel: Channel, environment: Mapping[str, str], listener: Listener
    ) -> None:
        self._options, self._spawner, self._channel = options, spawner, channel
        self._environment, self._listener = environment, listener
        self._workers: dict[int, Worker] = {}
        self._changed = asyncio.Event()
        self._ended = 0
        self._loaders: int | None = None
        self.step = -1
        """Last step that a worker said it finished, -1 if none."""

    @property
    def pids(self) -> list[int]:
        """Pids by local rank."""
        return [worker.process.pid or 0 for worker in self._workers.values()]

    @property
    def running(self) -> bool:
        """Whether a worker runs."""
        return any(not worker.process.exited.done() for worker in self._workers.values())

    async def start(self, world: World, restarts: int) -> None:
        """Start a worker for each local rank.

        Raises:
            DeadlineMissed: the fork server doesn't answer.
            Unusable: the log directory can't be written.
        """
        options = self._options
        self._workers, self._ended = {}, 0
        self._changed = asyncio.Event()
        directory = None
        if options.log_dir is not None:
            directory = options.log_dir / f"{options.run_id}_{os.getpid()}" / f"attempt_{world.round}_{restarts}"
        for rank in range(options.processes):
            env = worker_environment(
                world,
                rank,
                options,
                self._environment,
                socket=self._channel.path,
                restarts=restarts,
                loaders=self._loaders,
            )
            outputs = self._outputs(rank, world.own.first_rank + rank, directory)
            process = await self._spawner.start(self._command(env, outputs.streams()))
            self._workers[rank] = Worker(rank, process, outputs)
            process.exited.add_done_callback(lambda _, rank=rank: self._note_exit(rank))  # type: ignore[misc]

    def _outputs(self, local_rank: int, rank: int, directory: Path | None) -> Outputs:
        options = self._options
        return Outputs(
            local_rank,
            redirects=options.redirects.get(local_rank, options.redirects.get(None, 0)),
            tee=options.tee.get(local_rank, options.tee.get(None, 0)),
            shown=not options.shown or local_rank in options.shown,
            prefix=f"[{options.role}{rank}]:",
            directory=directory,
        )

    def _command(self, env: Mapping[str, str], streams: Mapping[int, int]) -> Command:
        options = self._options
        kind, script, arguments = str(options.kind), options.script, options.arguments
        if options.fresh and kind != "program":
            arguments = ("-u", *(("-m",) if kind == "module" else ()), script, *arguments)
            kind, script = "program", sys.executable
        return Command(kind, script, arguments, env, os.getcwd(), streams)

    def heed(self, pid: int, message: Message) -> None:
        """Take in what a worker said; what one of an earlier round says changes nothing."""
        worker = next((one for one in self._workers.values() if one.process.pid == pid), None)
        if worker is None:
            return
        kind = message["type"]
        if kind in ("step", "restored", "yielded", "checkpoint"):
            self.step = max(self.step, int(message["step"])) if kind != "restored" else int(message["step"])
        if kind == "hello" and self._loaders is not None:  # it may have changed since the worker was started
            self._channel.tell(pid, "loaders", workers=self._loaders)
        elif kind == "yielded":
            worker.yielded = True
        elif kind == "peer_lost":
            worker.peer_lost = str(message.get("message", ""))
            self._changed.set()
        self._listener(message)

    def _note_exit(self, rank: int) -> None:
        worker = self._workers.get(rank)
        if worker is not None and worker.process.exited.done():
            worker.order = self._ended
            self._ended += 1
            self._changed.set()

    def ask_to_yield(self, round_number: int) -> bool:
        """Ask all workers to end the round at a step boundary; False where one of them can't be asked."""
        asked = [self._channel.tell(pid, "yield", round=round_number) for pid in self.pids]
        return all(asked)

    def set_loaders(self, workers: int) -> None:
        """Tell all workers, and those that start later, how many processes are to load each one's data."""
        self._loaders = workers
        for pid in self.pids:
            self._channel.tell(pid, "loaders", workers=workers)

    async def wait(self) -> Outcome:
        """Wait for the group's end. Where a worker failed, the others are ended."""
        while (outcome := self._judge()) is None:
            self._changed.clear()
            await self._changed.wait()
        if outcome.end is End.FAILED:
            if outcome.peer_lost and self.running:
                outcome = await self._look_for_fault(outcome)
            await self.stop(_PEER_LOST_GRACE if outcome.peer_lost else 0.0)
            outcome = self._told(outcome)
        return outcome

    async def _look_for_fault(self, outcome: Outcome) -> Outcome:
        until = time.monotonic() + _FAULT_GRACE
        while outcome.peer_lost and self.running and (left := until - time.monotonic()) > 0:
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), left)
            except TimeoutError:
                break
            outcome = self._judge() or outcome
        return outcome

    def failed(self) -> Outcome | None:
        """Return how the group has failed already, None where it hasn't."""
        outcome = self._judge()
        return self._told(outcome) if outcome is not None and outcome.end is End.FAILED else None

    def _judge(self) -> Outcome | None:
        return judge([worker.account() for worker in self._workers.values()])

    def _told(self, outcome: Outcome) -> Outcome:
        """Add the worker's last lines, and the status with which it ended meanwhile."""
        worker = self._workers[outcome.local_rank]
        status = worker.process.exited.result() if worker.process.exited.done() else outcome.status
        message = outcome.message or worker.outputs.last_lines()
        return Outcome(outcome.end, outcome.local_rank, outcome.status or status, outcome.peer_lost, message)

    async def stop(self, timeout: float, number: int = signal.SIGTERM) -> None:
        """End all workers: the signal, then SIGKILL to what still runs after ``timeout`` seconds."""
        if timeout > 0:
            await self._signal_and_wait(number, timeout)
        await self._signal_and_wait(signal.SIGKILL, 10.0)

    async def _signal_and_wait(self, number: int, timeout: float) -> None:
        running = [worker.process for worker in self._workers.values() if not worker.process.exited.done()]
        for process in running:
            self._spawner.signal(process, number)
        if running:
            await asyncio.wait([process.exited for process in running], timeout=timeout)
