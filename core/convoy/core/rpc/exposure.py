"""Whether a server may listen where it is told to: beyond this machine only with a token."""

from __future__ import annotations

import ipaddress

from convoy.core.api.errors import InvalidSetting


def refuse_exposed(host: str, host_setting: str, token: str, token_setting: str, variable: str) -> None:
    """Refuse to listen where other machines can call without showing a token.

    Raises:
        InvalidSetting: naming both settings, and the token's environment variable.
    """
    if not token and not is_loopback(host):
        raise InvalidSetting(
            f"{token_setting}: empty, and {host_setting} {host!r} lets other machines call; set {variable} to a "
            f"secret, or {host_setting} to 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine can call a server that listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
