"""The address at which other nodes reach this one."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import time

from convoy.core.api.errors import Unavailable

_RETRY_SECONDS = 0.5


async def find_own_address(master: str, timeout: float) -> str:
    """Return the address from which this host reaches the master, trying for so many seconds.

    A name that isn't known yet, or a network that isn't up yet, comes with a node that has just started.

    Raises:
        Unavailable: the master's name can't be resolved, or there is no route to it.
    """
    until = time.monotonic() + timeout
    while True:
        try:
            return await asyncio.to_thread(own_address, master)
        except Unavailable as error:
            left = until - time.monotonic()
            if left <= 0:
                raise Unavailable(f"{error} (tried for {timeout:g} s, --rdzv-conf join_timeout)") from None
        await asyncio.sleep(min(_RETRY_SECONDS, left))


def own_address(master: str) -> str:
    """Return the address from which this host reaches the master at host:port. Sends nothing.

    Raises:
        Unavailable: the master's name can't be resolved now, or there is no route to it.
    """
    host, _, port = master.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)
    except OSError as error:
        raise Unavailable(
            f"master address {master}: {error.strerror or error}; correct DLROVER_MASTER_ADDR"
        ) from None
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            try:
                probe.connect(address)
            except OSError:
                continue
            own = str(probe.getsockname()[0])
            return "127.0.0.1" if ipaddress.ip_address(own).is_loopback else own
    raise Unavailable(f"master address {master}: no route to it from here; correct DLROVER_MASTER_ADDR")
