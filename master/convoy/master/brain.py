"""The Brain's client: sends what the feed holds, asks for recommendations, and says whether the Brain can be reached.

Losing the Brain never stops training: nothing here is waited for by anything but itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import grpc.aio

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import ConvoyError, DeadlineMissed, Unavailable
from convoy.core.api.v1 import brain_pb2, brain_pb2_grpc, metrics_pb2
from convoy.core.process import logs
from convoy.core.process.clock import Clock
from convoy.core.rpc import status
from convoy.core.rpc.caller import async_channel
from convoy.master.feed import BATCH, Feed

log = logs.get("master.brain")

_SEND_EVERY = 1.5
_PROBE_EVERY = 10.0
"""An idle master sends its job's description so often, and so notices that the Brain is away."""
_CALL_SECONDS = 5.0
_LONGEST_PAUSE = 10.0
_STUMBLES = 3
"""So often a batch is sent to a Brain that answers it with an error nobody foresaw; then it is dropped."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Whether the Brain can be reached; None: not known yet. ``reason`` and ``message`` stand on the condition."""

    available: bool | None
    reason: str
    message: str


class BrainClient:
    """One Brain. Reports carry the feed's sequences, by which each is stored once; questions carry none."""

    def __init__(
        self,
        address: str,
        envelope: Envelope,
        feed: Feed,
        describe: Callable[[], brain_pb2.JobDescription],
        clock: Clock,
    ) -> None:
        self.reach = Reach(None, "NotAsked", f"the Brain at {address} wasn't asked yet")
        self._address = address
        self._envelope = envelope
        self._feed = feed
        self._describe = describe
        self._clock = clock
        self._channel: grpc.aio.Channel = async_channel(address)
        self._stub = brain_pb2_grpc.BrainStub(self._channel)
        self._turn = asyncio.Lock()
        self._broken = 0

    async def run(self) -> None:
        """Send what there is, without end."""
        quiet_since = self._clock.monotonic()
        failures = 0
        while True:
            behind = not failures and self._feed.waiting >= BATCH  # the Brain was away: catch up
            await asyncio.sleep(0.0 if behind else min(_SEND_EVERY * 2.0 ** min(failures, 3), _LONGEST_PAUSE))
            now = self._clock.monotonic()
            if self._feed.waiting or failures or self.reach.available is None or now - quiet_since > _PROBE_EVERY:
                quiet_since = now
                failures = 0 if await self.send() else failures + 1

    async def send(self) -> bool:
        """Send one batch; return whether it was stored.

        It is sent again as long as the Brain is away, refuses the token or can't use its database. A batch that is
        wrong, or at which the Brain stumbles time and again, is dropped, and said so: it would hold up all others.
        """
        async with self._turn:
            sequence, batch = self._feed.next(self._describe())
            metadata = replace(self._envelope, sequence=sequence).to_metadata()
            try:
                ack = await self._stub.Report(batch, metadata=metadata, timeout=_CALL_SECONDS)
            except grpc.aio.AioRpcError as error:
                self._on_error(status.from_rpc(error))
                return False
            self._set(True, "Reachable", f"reports are stored by the Brain at {self._address}")
            for sentence in ack.refused:
                log.warning("the Brain refused a row", why=sentence)
            dropped = self._feed.acknowledge()
            self._broken = 0
            if dropped:
                self._say_dropped(dropped, "the Brain was away too long")
            return True

    async def ask(self, request: brain_pb2.OptimizeRequest) -> brain_pb2.Recommendation:
        """Ask what the job should become.

        Raises:
            ConvoyError: the Brain can't be reached, or refused the question.
        """
        try:
            answer: brain_pb2.Recommendation = await self._stub.OptimizeJob(
                request, metadata=self._envelope.to_metadata(), timeout=_CALL_SECONDS
            )
        except grpc.aio.AioRpcError as error:
            failure = status.from_rpc(error)
            if isinstance(failure, Unavailable):
                self._away(failure)
            raise failure from None
        self._set(True, "Reachable", f"the Brain at {self._address} answers")
        return answer

    async def close(self, flush: float) -> None:
        """Send what is left, for so many seconds at most, and close the channel."""
        try:
            async with asyncio.timeout(flush):
                while self._feed.waiting and await self.send():
                    pass
        except TimeoutError:
            log.warning("the Brain didn't take the last reports in time", rows=self._feed.waiting)
        await self._channel.close(None)

    def _on_error(self, failure: ConvoyError) -> None:
        if isinstance(failure, Unavailable | DeadlineMissed):
            self._away(failure)
            return
        self._set(False, failure.reason, str(failure))
        invalid = status.code(failure) is grpc.StatusCode.INVALID_ARGUMENT
        self._broken += failure.reason == ConvoyError.reason  # not of our tree: what came made the Brain stumble
        if not invalid and self._broken < _STUMBLES:
            log.error("the Brain refused a report", reason=failure.reason, why=str(failure), rows=self._feed.waiting)
            return
        self._broken = 0
        rows = self._feed.sent
        dropped = self._feed.acknowledge()
        if dropped:
            self._say_dropped(dropped, "the Brain was away too long")
        self._say_dropped({"rows": rows}, f"the Brain can't take them: {failure}")

    def _away(self, failure: ConvoyError) -> None:
        self._set(
            False, "Unreachable", f"the Brain at {self._address} can't be reached ({failure}); training goes on"
        )

    def _say_dropped(self, dropped: dict[str, int], why: str) -> None:
        shown = ", ".join(f"{count} of {kind}" for kind, count in dropped.items())
        log.warning("reports to the Brain were dropped", rows=shown, why=why)
        message = f"{why}: {shown}"
        event = metrics_pb2.JobEvent(time=self._clock.now(), reason="ReportsDropped", step=-1, message=message)
        self._feed.add(events=[event])

    def _set(self, available: bool, reason: str, message: str) -> None:
        if self.reach.available is not available:
            log.info("the Brain is reachable" if available else "the Brain isn't reachable", why=message)
        if (self.reach.available, self.reach.reason) != (available, reason):
            self.reach = Reach(available, reason, message)
