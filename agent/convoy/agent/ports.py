"""A port for the workers' store, held until a worker listens on it."""

from __future__ import annotations

import socket
from types import TracebackType
from typing import Self

from convoy.core.api.errors import Unusable


class Reservation:
    """Holds a port of this host, chosen by the kernel where none is given.

    It is bound and not listened on: the kernel gives it to nobody else who lets it choose, while a store, which binds
    with SO_REUSEADDR as libuv does, still can.
    """

    def __init__(self, wanted: int | None = None) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("", wanted or 0))
        except OSError as error:
            self._socket.close()
            raise Unusable(
                f"--master-port={wanted}: {error.strerror}; choose another, or leave it out", reason="PortInUse"
            ) from None
        self.number: int = self._socket.getsockname()[1]

    def close(self) -> None:
        """Give the port back."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
