"""The caller's side: the envelope on every call, a deadline on every call, retries while the peer is away."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import grpc
import grpc.aio

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import Unavailable
from convoy.core.rpc import status

CHANNEL_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),
)
"""Reconnect quickly: a master that was replaced is back within a second or two. Never through a proxy."""


class Caller:
    """Numbers the calls of one process to one peer. ``epoch`` follows the highest that the peer has told."""

    def __init__(self, channel: grpc.aio.Channel, envelope: Envelope) -> None:
        self.channel = channel
        self._envelope = envelope
        self._numbers = itertools.count(1)

    @property
    def envelope(self) -> Envelope:
        """The envelope without a sequence."""
        return self._envelope

    def learn_epoch(self, epoch: int) -> None:
        """Remember the peer's epoch if it is higher than the known one."""
        self._envelope = replace(self._envelope, epoch=max(epoch, self._envelope.epoch))

    async def call(self, method: Any, request: Any, *, timeout: float, wait: float = 0.0) -> Any:
        """Call a unary method. While the peer can't be reached, try again for ``wait`` seconds more.

        A retried call keeps its sequence, so that the peer can tell a repetition.

        Raises:
            ConvoyError: what the peer answered, or Unavailable / DeadlineMissed.
        """
        sequence = next(self._numbers)
        until = time.monotonic() + wait
        for attempt in itertools.count():
            metadata = replace(self._envelope, sequence=sequence).to_metadata()
            try:
                return await method(request, metadata=metadata, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                failure = status.from_rpc(error)
                if not isinstance(failure, Unavailable) or time.monotonic() >= until:
                    raise failure from None
            await asyncio.sleep(_pause(attempt, until))
        raise AssertionError("unreachable")

    async def stream(self, method: Any, request: Any) -> AsyncIterator[Any]:
        """Yield what a streaming method sends until it ends.

        Raises:
            ConvoyError: as ``call``.
        """
        metadata = replace(self._envelope, sequence=next(self._numbers)).to_metadata()
        call = method(request, metadata=metadata)
        try:
            async for item in call:
                yield item
        except grpc.aio.AioRpcError as error:
            raise status.from_rpc(error) from None
        finally:
            call.cancel()  # a reader that left early; nothing where the stream has ended


def _pause(attempt: int, until: float) -> float:
    pause = min(2.0, 0.1 * 2.0 ** min(attempt, 5)) * random.uniform(0.5, 1.0)
    return max(0.0, min(pause, until - time.monotonic()))


def async_channel(address: str) -> grpc.aio.Channel:
    """Open an asyncio channel to host:port."""
    return grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
