"""What agents ask of the master, over gRPC: callers are checked, calls become events, what is answered is persisted.

A call of an older incarnation, or of a node that was replaced, is refused and changes nothing. What is read of the
state here was persisted.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

from convoy.core.api import names
from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import (
    DeadlineMissed,
    InvalidInput,
    NotFound,
    StaleEpoch,
    StaleIncarnation,
    Unauthenticated,
    Unavailable,
)
from convoy.core.api.v1 import master_pb2, master_pb2_grpc
from convoy.core.process import logs
from convoy.core.rpc.guard import Check, caller, require_token
from convoy.master.conductor import Conductor
from convoy.master.convert import failure, group, to_window
from convoy.master.decide.actions import AnswerJoin, CompleteRound
from convoy.master.decide.directives import direction
from convoy.master.decide.draft import Draft
from convoy.master.decide.events import AgentJoined, AgentRegistered, AgentReported, AgentStoppedWaiting
from convoy.master.decide.nodes import is_stale
from convoy.master.decide.rendezvous import joined, missing, predecessor
from convoy.master.decide.state import Launcher, Node, Round
from convoy.master.feed import Feed
from convoy.master.hub import DirectiveHub
from convoy.master.keys import Keys
from convoy.master.shards.book import Book
from convoy.master.shards.ledger import Spec

log = logs.get("master.service")

_JOIN_SECONDS = 60.0
"""A JoinRendezvous that names no timeout is held for so long."""
_LONGEST_WAIT = 600.0


def admits(job_uid: str, token: str, epoch: int, on_newer_epoch: Callable[[int], None]) -> Check:
    """Return the check of every call: its token, its job, and whether it has heard of a newer master than this."""
    check_token = require_token(token)

    def check(envelope: Envelope) -> None:
        check_token(envelope)
        if envelope.job and envelope.job != job_uid:
            raise Unauthenticated(f"the call is for job {envelope.job}, this master's is {job_uid}")
        if envelope.epoch > epoch:
            on_newer_epoch(envelope.epoch)
            raise StaleEpoch(f"a newer master (epoch {envelope.epoch}) holds the job; this one had epoch {epoch}")

    return check


class MasterService(master_pb2_grpc.MasterServicer):
    """The servicer; everything it decides, the conductor decides."""

    def __init__(self, conductor: Conductor, hub: DirectiveHub, keys: Keys, book: Book, feed: Feed) -> None:
        self._conductor = conductor
        self._hub = hub
        self._keys = keys
        self._book = book
        self._feed = feed
        self._calls = itertools.count(1)
        self._joining: dict[int, tuple[int, asyncio.Future[Round]]] = {}
        self._heard: dict[int, tuple[int, int, int]] = {}  # by rank: the last report's node, incarnation, sequence
        self._background: set[asyncio.Task[Any]] = set()
        conductor.hands[CompleteRound] = self._on_round
        conductor.hands[AnswerJoin] = self._on_answer

    # -- nodes and rounds

    async def Register(self, request: master_pb2.RegisterRequest, context: Any) -> master_pb2.RegisterResponse:
        """Make the node known."""
        envelope = caller()
        if request.role not in ("", names.WORKER):
            raise InvalidInput(f"role {request.role!r}: this master's job has nodes of role {names.WORKER!r} only")
        if request.rank < 0 or request.node_id < 0:
            raise InvalidInput(f"rank {request.rank}, node_id {request.node_id}: expected 0 or more")
        self._refuse_stale(request.rank, request.node_id, envelope)
        await self._conductor.post(
            AgentRegistered(
                rank=request.rank,
                node_id=request.node_id,
                incarnation=envelope.incarnation,
                host=request.host,
                processes=max(1, request.processes),
                max_restarts=max(0, request.max_restarts),
                launcher=Launcher(
                    max(0, request.min_nodes), max(request.max_nodes, request.min_nodes), max(1, request.node_unit)
                ),
                round=request.round,
                step=request.step,
            )
        )
        self._hub.wake(request.rank)
        return master_pb2.RegisterResponse(
            epoch=self._conductor.state.job.epoch, heartbeat_seconds=self._conductor.policy.heartbeat
        )

    async def JoinRendezvous(self, request: master_pb2.JoinRequest, context: Any) -> master_pb2.JoinResponse:
        """Wait for a world."""
        node, envelope = self._node(request.rank)
        timeout = min(request.timeout_seconds if request.timeout_seconds > 0 else _JOIN_SECONDS, _LONGEST_WAIT)
        call = next(self._calls)
        answer: asyncio.Future[Round] = asyncio.get_running_loop().create_future()
        earlier = self._joining.pop(node.rank, None)
        if earlier is not None and not earlier[1].done():
            earlier[1].set_exception(Unavailable("a later call of the same node waits in this one's place"))
        self._joining[node.rank] = (call, answer)
        try:
            await self._conductor.post(
                AgentJoined(
                    rank=node.rank,
                    node_id=node.id,
                    incarnation=envelope.incarnation,
                    host=request.host or node.host,
                    store_port=request.store_port,
                    processes=max(1, request.local_world_size),
                    last_round=request.last_round,
                    call=call,
                )
            )
            async with asyncio.timeout(timeout):
                round_ = await answer
        except TimeoutError:
            raise DeadlineMissed(self._who_is_missing(timeout)) from None
        finally:
            if self._joining.get(node.rank, (0,))[0] == call:
                del self._joining[node.rank]
            if not answer.done() or answer.cancelled() or answer.exception() is not None:
                self._later(self._conductor.post(AgentStoppedWaiting(node.rank, call)))
        return _world(round_)

    async def Directives(
        self, request: master_pb2.DirectivesRequest, context: Any
    ) -> AsyncIterator[master_pb2.Directive]:
        """Send the node's directive now and at each change, until a newer process holds its rank."""
        node, envelope = self._node(request.rank)
        now = Draft(self._conductor.state, self._conductor.clock.now(), self._conductor.policy)
        async for directive in self._hub.follow(node.rank, direction(now, node.rank)):
            self._refuse_newer(node, envelope)
            yield directive

    async def Report(self, request: master_pb2.NodeReport, context: Any) -> master_pb2.ReportAck:
        """Take a heartbeat in."""
        node, envelope = self._node(None)
        ack = master_pb2.ReportAck(epoch=self._conductor.state.job.epoch)
        this = (node.id, envelope.incarnation, envelope.sequence)
        if envelope.sequence and self._heard.get(node.rank, (0, 0, 0)) >= this:
            return ack
        workers = request.workers
        await self._conductor.post(
            AgentReported(
                rank=node.rank,
                node_id=node.id,
                incarnation=envelope.incarnation,
                round=workers.round,
                group=group(workers.state),
                step=workers.step,
                failure=failure(workers),
                windows=tuple(to_window(sample) for sample in request.speed),
            )
        )
        self._heard[node.rank] = this
        self._feed.add(
            speed=request.speed, load=[request.load] if request.HasField("load") else (), events=request.events
        )
        return ack

    # -- keys

    async def SetKey(self, request: master_pb2.KeyValue, context: Any) -> master_pb2.Empty:
        """Give a key a value."""
        self._refuse_replaced()
        await self._keys.set(request.key, request.value)
        return master_pb2.Empty()

    async def GetKey(self, request: master_pb2.KeyRequest, context: Any) -> master_pb2.KeyValue:
        """Return a key's value, waiting for it."""
        value = await self._keys.get(request.key, min(request.timeout_seconds, _LONGEST_WAIT))
        return master_pb2.KeyValue(key=request.key, value=value)

    async def AddKey(self, request: master_pb2.AddRequest, context: Any) -> master_pb2.AddResponse:
        """Add to a number."""
        self._refuse_replaced()
        return master_pb2.AddResponse(value=await self._keys.add(request.key, request.amount, caller()))

    async def DeleteKey(self, request: master_pb2.KeyRequest, context: Any) -> master_pb2.Empty:
        """Forget a key."""
        self._refuse_replaced()
        await self._keys.delete(request.key)
        return master_pb2.Empty()

    # -- data shards

    async def RegisterDataset(self, request: master_pb2.Dataset, context: Any) -> master_pb2.Empty:
        """Make a data set known."""
        self._refuse_replaced()
        epochs = request.epochs or 1
        await self._book.register(
            Spec(request.name, request.size, request.shard_size, epochs, request.shuffle, request.seed)
        )
        return master_pb2.Empty()

    async def NextShard(self, request: master_pb2.ShardRequest, context: Any) -> master_pb2.Shard:
        """Hand a shard out."""
        self._refuse_replaced()
        shard = await self._book.take(request.dataset, caller(), min(request.timeout_seconds, _LONGEST_WAIT))
        if shard is None:
            return master_pb2.Shard(dataset=request.dataset, id=-1)
        return master_pb2.Shard(
            dataset=request.dataset, id=shard.id, epoch=shard.epoch, start=shard.start, end=shard.end
        )

    async def FinishShard(self, request: master_pb2.ShardDone, context: Any) -> master_pb2.Empty:
        """Take a shard back."""
        self._refuse_replaced()
        await self._book.finish(request.dataset, request.id, caller(), failed=request.failed)
        return master_pb2.Empty()

    async def SaveLedger(self, request: master_pb2.LedgerRequest, context: Any) -> master_pb2.Ledger:
        """Return a data set's position."""
        return master_pb2.Ledger(dataset=request.dataset, json=self._book.position(request.dataset))

    async def RestoreLedger(self, request: master_pb2.Ledger, context: Any) -> master_pb2.Empty:
        """Go back to a position."""
        self._refuse_replaced()
        await self._book.restore(request.dataset, request.json)
        return master_pb2.Empty()

    # -- who speaks

    def _node(self, rank: int | None) -> tuple[Node, Envelope]:
        """Return the node whose agent calls.

        Raises:
            StaleIncarnation: a newer process holds its rank.
            NotFound: it isn't registered with this master; it must register first.
        """
        envelope = caller()
        state = self._conductor.state
        found = next(
            (node for node in state.job.nodes.values() if node.pod(state.facts.name) == envelope.sender), None
        )
        if found is None:
            self._refuse_replaced()
        if found is None or found.incarnation == 0 or envelope.incarnation > found.incarnation:
            raise NotFound(
                f"{envelope.sender or 'the caller'} isn't registered: register first", reason="NotRegistered"
            )
        self._refuse_stale(found.rank, found.id, envelope)
        if rank is not None and rank != found.rank:
            raise InvalidInput(f"rank {rank}: {envelope.sender} holds rank {found.rank}")
        return found, envelope

    def _refuse_replaced(self) -> None:
        """Refuse a call from a pod whose place another has taken, or that is no longer part of the job."""
        sender, state = caller().sender, self._conductor.state
        prefix = names.pod(state.facts.name, names.WORKER, 0)[:-1]
        number = sender.removeprefix(prefix)
        if sender.startswith(prefix) and number.isascii() and number.isdigit():
            current = any(node.id == int(number) for node in state.job.nodes.values())
            if not current and int(number) < state.job.next_id:
                raise StaleIncarnation(f"{sender} was replaced or removed; it must end")

    def _refuse_stale(self, rank: int, node_id: int, envelope: Envelope) -> None:
        if is_stale(self._conductor.state, rank, node_id, envelope.incarnation):
            raise StaleIncarnation(
                f"rank {rank}: a newer process than {envelope.sender} holds it, or will; end this one"
            )

    def _refuse_newer(self, node: Node, envelope: Envelope) -> None:
        current = self._conductor.state.job.nodes.get(node.rank)
        if current is not None and (current.id, current.incarnation) > (node.id, envelope.incarnation):
            raise StaleIncarnation(f"rank {node.rank}: a newer process than {envelope.sender} holds it; end this one")

    # -- waiting calls

    def _on_round(self, action: CompleteRound) -> None:
        for rank in action.round.ranks:
            _, answer = self._joining.get(rank, (0, None))
            if answer is not None and not answer.done():
                answer.set_result(action.round)

    def _on_answer(self, action: AnswerJoin) -> None:
        call, answer = self._joining.get(action.rank, (0, None))
        if answer is not None and call == action.call and not answer.done():
            answer.set_result(action.round)

    def _who_is_missing(self, timeout: float) -> str:
        state = self._conductor.state
        draft = Draft(state, self._conductor.clock.now(), self._conductor.policy)
        ready = len(joined(draft))
        absent = missing(draft)
        shown = ", ".join(f"{draft.pod(rank)} ({_standing(draft, rank)})" for rank in absent[:8])
        more = f" and {len(absent) - 8} more" if len(absent) > 8 else ""
        fewest = state.range().fewest
        return (
            f"{ready} of {ready + len(absent)} nodes joined within {timeout:g} s, at least {fewest} are needed; "
            f"missing: {shown or 'none, but the world must be a multiple of the node unit, or waits out a back-off'}"
            f"{more}"
        )

    def _later(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)


def _standing(draft: Draft, rank: int) -> str:
    held = predecessor(draft, rank)
    return f"its place is held until the end of {held}" if held else draft.job.nodes[rank].status.value


def _world(round_: Round) -> master_pb2.JoinResponse:
    first, members = 0, []
    for member in round_.members:
        members.append(
            master_pb2.Member(
                node_rank=member.rank,
                local_world_size=member.processes,
                first_process_rank=first,
                host=member.host,
                store_port=member.store_port,
            )
        )
        first += member.processes
    return master_pb2.JoinResponse(round=round_.number, members=members)
