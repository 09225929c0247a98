"""Servers of one test's own, which it may kill, freeze and bring back: those of ``make servers`` belong to all tests.

Each lies in a folder that the test gives, on a port that stays its own while it is away, and ends with the context. A
test that needs one is marked ``servers``, and skips where its programs aren't there: ``make servers`` brings them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from servers.api_server import ApiServer
from servers.mariadb import MariaDB
from servers.programs import Missing
from servers.prometheus import Prometheus
from servers.shared import Server

S = TypeVar("S", bound=Server)


@contextmanager
def disposable_mariadb(folder: Path) -> Iterator[MariaDB]:
    """Give a running MariaDB whose acknowledged commits are on disk: ``url``, ``kill``, ``freeze``, ``start``."""
    with _running(MariaDB(folder, durable=True)) as server:
        yield server


@contextmanager
def disposable_api_server(
    folder: Path, *, controllers: bool = False, flags: Sequence[str] = ()
) -> Iterator[ApiServer]:
    """Give a running API server with our CRDs: ``kubeconfig``, ``kill``, ``freeze``, ``start``, ``compact``.

    Start takes 4 s and 350 MiB. ``flags`` are the API server's own, such as ``--watch-cache=false``.
    """
    with _running(ApiServer(folder, controllers=controllers, flags=flags)) as server:
        yield server


@contextmanager
def disposable_prometheus(
    folder: Path, *, history: str = "", exporter: bool = False, flags: Sequence[str] = ()
) -> Iterator[Prometheus]:
    """Give a running Prometheus: ``url``, ``targets``, ``kill``, ``freeze``, ``start``.

    It starts with ``history``, OpenMetrics' text with a time stamp on each line, of whatever age.
    """
    server = Prometheus(folder, exporter=exporter, retention="100y", flags=flags)
    if history:
        with _or_skip():
            server.load(history)
    with _running(server):
        yield server


@contextmanager
def _running(server: S) -> Iterator[S]:
    try:
        with _or_skip():
            server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def _or_skip() -> Iterator[None]:
    try:
        yield
    except Missing as missing:
        pytest.skip(str(missing))
