"""The operator's process in a Kubernetes cluster: of its replicas one leads and reconciles, the others wait."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from pathlib import Path

from convoy.core.api import names
from convoy.core.api.errors import Fenced, InvalidSetting
from convoy.core.cluster.kubernetes import KubernetesCluster, open_cluster
from convoy.core.cluster.kubernetes.election import Election, identity
from convoy.core.cluster.platform import Platform
from convoy.core.process import logs
from convoy.core.process.clock import SystemClock
from convoy.core.process.signals import stop_event
from convoy.operator.controller import Controller
from convoy.operator.pods import Site
from convoy.operator.settings import OperatorSettings
from convoy.operator.templates import Templates

LEASE = "convoy-operator"
_MASTER_COMMAND = ("convoy", "master")
_WATCH_SECONDS = 5.0
_LOOK_SECONDS = 0.2


def run(settings: OperatorSettings, kubeconfig: Path | None = None, context: str | None = None) -> None:
    """Wait until this replica leads, then reconcile until SIGTERM. Pods outlive it. Call from the main thread.

    Raises:
        Fenced: another replica leads now; begin again as a candidate, as a restarted container does.
        InvalidSetting: a setting is one machine's alone.
        Unusable: there is no cluster, or it refuses us.
    """
    for name in ("exit_when_idle", "exit_with"):
        if getattr(settings, name) is not None:
            raise InvalidSetting(f"{name}: is for one machine's operator; leave it out on Kubernetes")
    logs.configure("operator")
    stop = stop_event()
    with closing(open_cluster(kubeconfig, context)) as cluster:
        election = Election(cluster, settings.namespace, LEASE, identity())
        if not election.lead(stop):
            return
        try:
            _lead(cluster, settings, election, stop)
        finally:
            election.release()
    if election.lost.is_set():
        raise Fenced(f"the lease {settings.namespace}/{LEASE} was lost: another replica may lead")


def _lead(cluster: KubernetesCluster, settings: OperatorSettings, election: Election, stop: threading.Event) -> None:
    log = logs.get("operator.process")
    here = site(settings)
    controller = Controller(
        cluster,
        here,
        SystemClock(),
        workers=settings.workers,
        resync=settings.resync_seconds,
        watch=_WATCH_SECONDS,
        namespaces=settings.namespaces,
        vetted=Templates(
            lambda pod: cluster.create(pod, field_manager=names.MANAGER_OPERATOR, dry_run=True), here
        ).vetted,
        permitted=election.check,
    )
    controller.start()
    log.info("operator leads", pid=os.getpid(), namespace=settings.namespace)
    try:
        while not stop.wait(_LOOK_SECONDS) and not election.lost.is_set():
            pass
    finally:
        controller.stop()
        log.info("operator ends", why="another may lead" if election.lost.is_set() else "asked to stop")


def site(settings: OperatorSettings) -> Site:
    """Return what masters are made by on Kubernetes."""
    given = settings.master_command if "master_command" in settings.model_fields_set else _MASTER_COMMAND
    return Site(
        master_image=settings.master_image,
        master_command=tuple(given),
        brain_address=settings.brain_address,
        master_port=names.MASTER_PORT,
        master_env={"CONVOY_PLATFORM": str(Platform.KUBERNETES), "CONVOY_MASTER_HOST": "0.0.0.0"},
        master_account=settings.master_account,
        master_role=settings.master_role,
    )
