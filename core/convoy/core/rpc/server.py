"""Servers: built with the guard, bound to a port that nobody else holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio

from convoy.core.api.errors import Unusable
from convoy.core.rpc.guard import AsyncGuard, Check, Guard

_LARGEST = 64 * 1024 * 1024


def _options(largest: int = _LARGEST) -> tuple[tuple[str, Any], ...]:
    """Return a server's options; ``so_reuseport`` off: else a second one would take half of the calls, unnoticed."""
    return (
        ("grpc.max_send_message_length", _LARGEST),
        ("grpc.max_receive_message_length", largest),
        ("grpc.so_reuseport", 0),
    )


def async_server(check: Check) -> grpc.aio.Server:
    """Return an asyncio server whose calls ``check`` admits; add servicers, ``bind`` and start it."""
    return grpc.aio.server(interceptors=[AsyncGuard(check)], options=_options())


def blocking_server(check: Check, *, threads: int = 8, waiting: int = 24, largest: int = _LARGEST) -> grpc.Server:
    """Return a threaded server whose calls ``check`` admits.

    ``waiting``: so many calls more than ``threads`` wait for their turn; others are refused at once, and their
    callers come again later (``Unavailable``). So a slow answer doesn't fill the memory with questions.
    ``largest``: bytes of a message that is taken.
    """
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="rpc")
    return grpc.server(
        pool,
        interceptors=[Guard(check)],
        options=_options(largest),
        maximum_concurrent_rpcs=threads + waiting,
    )


def bind(server: grpc.aio.Server | grpc.Server, address: str) -> int:
    """Have the server listen at host:port and return the port; port 0 has the kernel choose.

    Raises:
        Unusable: the port is in use, or the address isn't this machine's.
    """
    try:
        port = server.add_insecure_port(address)
    except RuntimeError:
        port = 0
    if port == 0:
        raise Unusable(
            f"address {address}: can't be listened at: the port is in use, or the address isn't this machine's; "
            "stop what listens there, or name another port",
            reason="AddressInUse",
        )
    return port
