"""The Brain's process: migrate, serve, stop on SIGTERM."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from convoy.brain.settings import BrainSettings
from convoy.brain.store.engine import open_engine, shown
from convoy.brain.store.migrate import migrate_when_up
from convoy.core.api import names
from convoy.core.process import logs
from convoy.core.process.clock import SystemClock
from convoy.core.process.quiet import quiet_grpc
from convoy.core.process.signals import stop_event
from convoy.core.rpc.exposure import refuse_exposed

if TYPE_CHECKING:
    import grpc

log = logs.get("brain")

_STOP_SECONDS = 5.0
_LARGEST = 8 * 1024 * 1024
"""Bytes of a report: a master's is a tenth of it, and every thread may hold one."""


def run(settings: BrainSettings) -> None:
    """Serve until SIGTERM or SIGINT. Call from the main thread.

    Raises:
        InvalidSetting: the database's URL is wrong, or there is no token where others than this machine can call.
        Unusable: the port is in use, or the database isn't there or refuses us.
        UnknownSchema: a newer version made the database's schema.
    """
    logs.configure("brain")
    quiet_grpc()  # before grpc is imported
    from convoy.core.rpc.guard import require_token
    from convoy.core.rpc.server import bind, blocking_server

    stop = stop_event()
    token = settings.brain_token.get_secret_value()
    refuse_exposed(settings.brain_host, "brain_host", token, "brain_token", names.ENV_BRAIN_TOKEN)
    server = blocking_server(require_token(token), threads=settings.brain_threads, largest=_LARGEST)
    port = bind(server, _address(settings.brain_host, settings.brain_port))
    try:
        _serve(server, port, settings, stop)
    finally:
        server.stop(_STOP_SECONDS).wait(_STOP_SECONDS + 1)


def _serve(server: grpc.Server, port: int, settings: BrainSettings, stop: threading.Event) -> None:
    url = settings.database()
    if not migrate_when_up(url, settings.database_wait_seconds, stop):
        return
    # The models' matrices are small: BLAS threads would cost them tenfold, and the trainers beside them cores.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Only now: numpy, pandas and scipy take longer to import than a refusal may take.
    from convoy.brain.serve.servicer import BrainServicer
    from convoy.brain.serve.upkeep import Upkeep
    from convoy.core.api.v1 import brain_pb2_grpc

    engine = open_engine(url)
    servicer = BrainServicer(engine, SystemClock(), settings)
    brain_pb2_grpc.add_BrainServicer_to_server(servicer, server)
    server.start()
    log.info("serving", address=f"{settings.brain_host}:{port}", database=shown(engine.url))
    servicer.warm_up()
    Upkeep(engine, SystemClock(), settings, stop).start()
    stop.wait()
    log.info("stopping")
    server.stop(_STOP_SECONDS).wait(_STOP_SECONDS + 1)
    engine.dispose()


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
