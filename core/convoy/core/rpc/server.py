"""Servers: built with the guard, bound to a port that nobody else holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio

from convoy.core.api.errors import Unusable
from convoy.core.rpc.guard import AsyncGuard, Check, Guard

SERVER_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_send_message_length", 64 * 1024 * 1024),
    ("grpc.max_receive_message_length", 64 * 1024 * 1024),
    ("grpc.so_reuseport", 0),
)
"""``so_reuseport`` off: else a second server on the port would take half of the calls, and say nothing."""


def async_server(check: Check) -> grpc.aio.Server:
    """Return an asyncio server whose calls ``check`` admits; add servicers, ``bind`` and start it."""
    return grpc.aio.server(interceptors=[AsyncGuard(check)], options=SERVER_OPTIONS)


def blocking_server(check: Check, *, threads: int = 8, waiting: int = 24) -> grpc.Server:
    """Return a threaded server whose calls ``check`` admits.

    ``waiting``: so many calls more than ``threads`` wait for their turn; others are refused at once, and their
    callers come again later (``Unavailable``). So a slow answer doesn't fill the memory with questions.
    """
    pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="rpc")
    return grpc.server(
        pool, interceptors=[Guard(check)], options=SERVER_OPTIONS, maximum_concurrent_rpcs=threads + waiting
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
