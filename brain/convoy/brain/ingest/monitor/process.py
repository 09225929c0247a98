"""The monitor's process: migrate, follow, stop on SIGTERM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from convoy.brain.ingest.monitor import permissions
from convoy.brain.ingest.monitor.monitor import Monitor, wanted
from convoy.brain.ingest.monitor.told import KINDS
from convoy.brain.settings import BrainSettings
from convoy.brain.store.engine import open_engine, shown
from convoy.brain.store.migrate import migrate_when_up
from convoy.core.api.errors import ConvoyError, InvalidSetting, Unavailable
from convoy.core.cluster.port import ClusterReader, Kind
from convoy.core.process import logs
from convoy.core.process.signals import stop_event

if TYPE_CHECKING:
    import threading

log = logs.get("brain.monitor")

_LOOK_SECONDS = 0.2
_RETRY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster that was opened.

    Attributes:
        reader: reads it.
        close: ends its watches.
        anchor: an object that lives as long as the cluster; its uid tells clusters of one name apart.
        version: asks for the version of the API server; ``""`` where there is none.
    """

    reader: ClusterReader
    close: Callable[[], None]
    anchor: tuple[Kind, str]
    version: Callable[[], str]


def kubernetes(kubeconfig: Path | None, context: str | None) -> Source:
    """Open a Kubernetes cluster.

    Raises:
        Unusable: there is no configuration, or it can't be used.
    """
    from convoy.core.cluster.kubernetes import open_reader

    reader = open_reader(kubeconfig, context)
    return Source(reader, reader.close, (Kind.NAMESPACE, "kube-system"), reader.version)


def local(state_dir: Path) -> Source:
    """Open the cluster of one machine.

    Raises:
        Unusable: its folder can't be written.
    """
    from convoy.core.cluster.local import open_cluster

    cluster = open_cluster(state_dir)
    return Source(cluster, cluster.close, (Kind.NODE, "local"), str)


def run(settings: BrainSettings, open_source: Callable[[], Source], namespaces: Sequence[str] = ()) -> None:
    """Follow a cluster until SIGTERM or SIGINT. Call from the main thread.

    Raises:
        InvalidSetting: the database's URL or a namespace is wrong.
        Unusable: the cluster refuses us or serves none of our kinds, or the store knows another one by its name, or
            the database isn't there or refuses us.
        UnknownSchema: a newer version made the database's schema.
    """
    logs.configure("monitor")
    for namespace in namespaces:
        if not namespace:
            raise InvalidSetting("--namespace '': expected a name; leave it out to follow all namespaces")
    stop = stop_event()
    source = open_source()
    try:
        if not _admitted(source, namespaces, stop):
            return
        if migrate_when_up(settings.database(), settings.database_wait_seconds, stop):
            _follow(settings, source, namespaces, stop)
    finally:
        source.close()


def _admitted(source: Source, namespaces: Sequence[str], stop: threading.Event) -> bool:
    """Wait until the cluster can be reached and lets us read; False if told to stop before."""
    said = False
    while not stop.is_set():
        try:
            permissions.check(source.reader, wanted(namespaces))
        except Unavailable as error:
            if not said:
                log.warning("waiting for the cluster", reason=error.reason, why=str(error))
                said = True
            stop.wait(_RETRY_SECONDS)
        else:
            return True
    return False


def _follow(settings: BrainSettings, source: Source, namespaces: Sequence[str], stop: threading.Event) -> None:
    engine = open_engine(settings.database())
    uid, version = _asked(lambda: _uid(source), "uid"), _asked(source.version, "version")
    monitor = Monitor(
        engine,
        source.reader,
        name=settings.cluster,
        close=source.close,
        uid=uid,
        version=version,
        namespaces=namespaces,
        user_label=settings.user_label,
    )
    log.info(
        "monitoring",
        cluster=settings.cluster,
        uid=uid,
        version=version,
        kinds=[str(kind) for kind in KINDS],
        namespaces=list(namespaces) or "all",
        database=shown(engine.url),
    )
    monitor.start()
    try:
        _wait(monitor, settings.monitor_report_seconds, stop)
    finally:
        log.info("stopping")
        monitor.stop()
        log.info("counts", **monitor.report())
        engine.dispose()
    if monitor.failure is not None:
        raise monitor.failure


def _wait(monitor: Monitor, report_seconds: float, stop: threading.Event) -> None:
    """Wait until told to stop or until the monitor fails, and log the counts meanwhile."""
    looks, caught_up = 0, False
    while not stop.is_set() and not monitor.failed(_LOOK_SECONDS):
        looks += 1
        if not caught_up and monitor.settled():
            caught_up = True
            log.info("caught up", **monitor.report())
        if looks * _LOOK_SECONDS >= report_seconds:
            looks = 0
            log.info("counts", **monitor.report())


def _uid(source: Source) -> str:
    kind, name = source.anchor
    return str(source.reader.get(kind, "", name)["metadata"]["uid"])


def _asked(ask: Callable[[], str], what: str) -> str:
    """Return what the cluster says of itself; empty where it doesn't let us know: the monitor works without."""
    try:
        return ask()
    except ConvoyError as error:
        log.warning(f"the cluster's {what} isn't known", reason=error.reason, why=str(error))
        return ""
