"""The servers that all test runs of a user share: one of each, started once, its addresses in ``NAME.env``."""

from __future__ import annotations

import fcntl
import os
import shutil
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

from servers.cache import SERVERS
from servers.process import Failed
from servers.programs import Missing


class Server(ABC):
    """One kind of server, in a folder."""

    name: ClassVar[str]
    variables: ClassVar[tuple[str, ...]]
    """Names of ``environment``; where the user has set the first, the user's own server is used instead."""
    lasting: ClassVar[bool] = False
    """Whether the shared one's data outlive ``stop``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def install(self) -> None:
        """Bring its programs, or raise Missing."""

    @abstractmethod
    def start(self) -> None:
        """Start it, or raise Failed or Missing and leave nothing running."""

    @abstractmethod
    def running(self) -> bool:
        """Return whether all of it runs."""

    @abstractmethod
    def stop(self) -> None:
        """End what runs of it."""

    @abstractmethod
    def environment(self) -> dict[str, str]:
        """Return the variables by which tests find it."""

    def settle(self, environment: dict[str, str]) -> None:  # noqa: B027 (most have nothing to bring)
        """Bring what the checkout says into the server that ``environment`` names, at each start."""


def start(kind: type[Server]) -> str:
    """Start the server unless it runs, and return its variables, one in a line.

    Raises:
        Missing: its programs aren't there and can't be brought.
        Failed: it didn't start.
    """
    if given := _given(kind):
        kind(_folder(kind)).settle(given)
        return _lines(given)
    with _locked(kind):
        server, file = kind(_folder(kind)), _file(kind)
        if not (file.is_file() and server.running()):
            _stop(kind)
            server.install()
            server.start()
            file.touch(mode=0o600)
            file.write_text(_lines(server.environment()))
        server.settle(dict(line.split("=", 1) for line in file.read_text().splitlines()))
        return file.read_text()


def stop(kind: type[Server]) -> str:
    """Stop the server if it runs."""
    with _locked(kind):
        _stop(kind)
    return ""


def url(kind: type[Server]) -> str:
    """Return the variables of the server.

    Raises:
        Failed: it doesn't run.
    """
    if given := _given(kind):
        return _lines(given)
    if not (_file(kind).is_file() and kind(_folder(kind)).running()):
        raise Failed("it doesn't run; start it with `make servers`")
    return _file(kind).read_text()


COMMANDS = {"start": start, "stop": stop, "url": url}


def main(kind: type[Server]) -> None:
    """Run one command for one server; end with status 1 where it can't be done."""
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(COMMANDS)}")
    try:
        sys.stdout.write(COMMANDS[sys.argv[1]](kind))
    except (Failed, Missing) as error:
        sys.exit(f"{kind.name}: {error}")


def _stop(kind: type[Server]) -> None:
    _file(kind).unlink(missing_ok=True)
    kind(_folder(kind)).stop()
    if not kind.lasting:
        shutil.rmtree(_folder(kind), ignore_errors=True)


def _given(kind: type[Server]) -> dict[str, str]:
    """Return the variables that the user has set, if they name a server of the user's own."""
    if kind.variables[0] not in os.environ:
        return {}
    return {name: os.environ[name] for name in kind.variables if name in os.environ}


def _folder(kind: type[Server]) -> Path:
    return SERVERS / kind.name


def _file(kind: type[Server]) -> Path:
    return SERVERS / f"{kind.name}.env"


def _lines(variables: dict[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in variables.items())


@contextmanager
def _locked(kind: type[Server]) -> Iterator[None]:
    """Let one command at a time change the server; the kernel drops the lock with its holder."""
    SERVERS.mkdir(parents=True, exist_ok=True)
    with open(SERVERS / f"{kind.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
