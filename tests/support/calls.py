"""Calls from threads: what a peer of the Brain or of a master sends, one unary call at a time."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import grpc

from convoy.core.api.envelope import Envelope
from convoy.core.rpc import status
from convoy.core.rpc.caller import CHANNEL_OPTIONS


def blocking_channel(address: str) -> grpc.Channel:
    """Open a channel for threads to host:port."""
    return grpc.insecure_channel(address, options=CHANNEL_OPTIONS)


class BlockingCaller:
    """Numbers the calls of one process to one peer."""

    def __init__(self, channel: grpc.Channel, envelope: Envelope) -> None:
        self.channel = channel
        self._envelope = envelope
        self._numbers = itertools.count(1)

    def call(self, method: Any, request: Any, *, timeout: float) -> Any:
        """Call a unary method once.

        Raises:
            ConvoyError: what the peer answered, or Unavailable / DeadlineMissed.
        """
        metadata = replace(self._envelope, sequence=next(self._numbers)).to_metadata()
        try:
            return method(request, metadata=metadata, timeout=timeout)
        except grpc.RpcError as error:
            raise status.from_rpc(error) from None
