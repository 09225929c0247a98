"""The job's spec as it was last right: a running job whose spec is edited into a wrong one is led on by it."""

from __future__ import annotations

from collections.abc import Callable

from convoy.core.api import admission
from convoy.core.api.errors import InvalidManifest, StateError, Unavailable
from convoy.core.api.job import ElasticJob
from convoy.core.api.meta import Manifest, ObjectMeta, validate
from convoy.core.process import logs
from convoy.master.durable import JOB, StateStore

log = logs.get("master.accepted")


class AcceptedSpec:
    """Keeps the spec beside the master's state. Any thread may read; one at a time may keep.

    ``store`` gives the place of a job's state.
    """

    def __init__(self, store: Callable[[ObjectMeta], StateStore]) -> None:
        self._store = store
        self._kept: Manifest | None = None
        self._told = ""

    def read(self, manifest: Manifest) -> ElasticJob:
        """Return the job; where its spec is wrong, or asks for what isn't carried out, with the one that was kept.

        Raises:
            InvalidManifest: the job is wrong, and none was kept.
        """
        job: ElasticJob | None = None
        try:
            job = ElasticJob.from_manifest(manifest)
            admission.check_supported(job)
        except InvalidManifest as error:
            kept = self._load(manifest)
            if kept is None and job is not None:
                return job  # what decides about it says why it isn't carried out
            if kept is None:
                raise
            if self._told != str(error):
                self._told = str(error)
                log.warning("the job goes on by its spec as it was", reason=error.reason, why=str(error))
            return ElasticJob.from_manifest({**manifest, "spec": kept})
        self._told = ""
        return job

    def keep(self, job: ElasticJob) -> None:
        """Keep the job's spec, if it is one that is carried out.

        Raises:
            Unusable: it can't be written.
        """
        spec = job.spec.to_json()
        if spec == self._kept:
            return
        try:
            admission.check_supported(job)
        except InvalidManifest:
            return
        self._store(job.metadata).save(JOB, {"spec": spec})
        self._kept = spec

    def _load(self, manifest: Manifest) -> Manifest | None:
        if self._kept is None:
            try:
                found = self._store(validate(ObjectMeta, manifest["metadata"])).load(JOB)
            except (StateError, Unavailable) as error:
                log.warning("the spec that was kept can't be used", reason=error.reason, why=str(error))
                return None
            self._kept = found["spec"] if found else None
        return self._kept
