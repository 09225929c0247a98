"""The address at which other nodes reach this one."""

from __future__ import annotations

import ipaddress
import socket

from convoy.core.api.errors import Unusable


def own_address(master: str) -> str:
    """Return the address from which this host reaches the master at host:port. Sends nothing.

    Raises:
        Unusable: the master's name can't be resolved.
    """
    host, _, port = master.rpartition(":")
    host = host.strip("[]")
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_DGRAM)
    except OSError as error:
        raise Unusable(f"master address {master}: {error.strerror or error}; correct DLROVER_MASTER_ADDR") from None
    for family, kind, _, _, address in found:
        with socket.socket(family, kind) as probe:
            try:
                probe.connect(address)
            except OSError:
                continue
            own = str(probe.getsockname()[0])
            return "127.0.0.1" if ipaddress.ip_address(own).is_loopback else own
    raise Unusable(f"master address {master}: no route to it from here; correct DLROVER_MASTER_ADDR")
