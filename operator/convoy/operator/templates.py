"""Checking a job's pod templates by dry runs: what the API server wouldn't take is refused by its path in the job.

The schema leaves templates open, for no schema of ours should know all that a pod can be. So before anything of a job
is created, and again when its spec has changed, the first pod of each role is sent to be checked and not kept. What
admission forbids at the moment (a quota, say) isn't the template's fault: the pods' creation meets it, and waits. It
comes before validation, so what a pod only refers to is left out: a class or an account that isn't there yet.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from convoy.core.api import names
from convoy.core.api.errors import ConvoyError, InvalidManifest, Unavailable
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest
from convoy.core.api.plan import PodMeta
from convoy.operator.observe import Observed
from convoy.operator.pods import Site, master_pod, master_service, node_pod

_KEPT = 10_000
"""Verdicts that are remembered: more jobs than an operator handles."""
_REFERRED_TO = ("priorityClassName", "serviceAccountName", "serviceAccount", "runtimeClassName")
_VARIABLE = re.compile(r"^spec\.containers\[(\d+)\]\.env\[(\d+)\]")

DryRun = Callable[[Manifest], object]
"""Has a pod checked, as if it were created; raises what creating it would."""


class RolePod(NamedTuple):
    """The first pod of a role."""

    role: str
    manifest: Manifest


class Templates:
    """What dry runs said of each job's templates. Several threads may use it."""

    def __init__(self, dry_run: DryRun, site: Site) -> None:
        self._dry_run = dry_run
        self._site = site
        self._lock = threading.Lock()
        self._verdicts: OrderedDict[tuple[str, int | None], InvalidManifest | None] = OrderedDict()

    def vetted(self, seen: Observed) -> Observed:
        """Return what is observed, the job taken for wrong where one of its templates is.

        Raises:
            Unavailable: the API server can't be asked now.
        """
        job = seen.job.job
        phase = seen.job.status.phase
        ended = phase is not None and phase.is_terminal and not seen.job.refused
        if job is None or ended or not seen.job.ours or job.metadata.deletion_timestamp is not None:
            return seen
        error = self._verdict(job)
        return seen if error is None else replace(seen, job=replace(seen.job, job=None, error=error, readable=job))

    def _verdict(self, job: ElasticJob) -> InvalidManifest | None:
        key = job.metadata.uid, job.metadata.generation
        with self._lock:
            if key in self._verdicts:
                return self._verdicts[key]
        error = check(job, self._site, self._dry_run)
        with self._lock:
            self._verdicts[key] = error
            while len(self._verdicts) > _KEPT:
                self._verdicts.popitem(last=False)
        return error


def check(job: ElasticJob, site: Site, dry_run: DryRun) -> InvalidManifest | None:
    """Return what is wrong with a job's templates, None where the API server would take a pod of each role.

    Raises:
        Unavailable: it can't be asked now.
    """
    for role, pod in first_pods(job, site):
        try:
            dry_run(pod)
        except InvalidManifest as error:
            said = str(error).removeprefix(f"{error.path}: ")
            return InvalidManifest(place_in_job(error.path, role, pod, job), said)
        except Unavailable:
            raise
        except ConvoyError:
            continue  # it is there already, or can't be now
    return None


def first_pods(job: ElasticJob, site: Site) -> Iterator[RolePod]:
    """Yield the first pod of each role as it would be created, but for what it refers to; the master's last. Pure."""
    for role, pod in _first_pods(job, site):
        for name in _REFERRED_TO:
            pod["spec"].pop(name, None)
        yield RolePod(role, pod)


def _first_pods(job: ElasticJob, site: Site) -> Iterator[RolePod]:
    service = master_service(job, site).manifest
    for role in job.spec.replica_specs:
        if role != names.MASTER:
            first = PodMeta(name=names.pod(job.metadata.name, role, 0), type=role, id=0, rank_index=0)
            yield RolePod(role, node_pod(job, site, first, service, nodes=1).manifest)
    yield RolePod(names.MASTER, master_pod(job, site, 0, service, brain_token=False).manifest)


def place_in_job(path: str, role: str, pod: Manifest, job: ElasticJob) -> str:
    """Return where in the job a field of a role's pod comes from. Pure.

    A variable's number isn't the template's, for Convoy's own stand in front.
    """
    replica = job.spec.replica_specs.get(role)
    if replica is None:
        return f"the master's pod, {path}"
    template = f"spec.replicaSpecs.{role}.template"
    if (found := _VARIABLE.match(path)) is None:
        return f"{template}.{path}" if path else template
    container, number = int(found[1]), int(found[2])
    variables = pod["spec"]["containers"][container].get("env") or []
    name = variables[number].get("name") if number < len(variables) else None
    own = [one.name for one in replica.template.spec.containers[container].env]
    rest = path[found.end() :]
    if name in own:
        return f"{template}.spec.containers[{container}].env[{own.index(name)}]{rest}"
    return f"spec.envs.{name}{rest}" if name in (job.spec.envs or {}) else f"{template}.{path}"
