"""Stage ``fit``: each kind of model fitted and tested beside its champion, and registered as a candidate.

A version of this run is known by the moment of its fit, which is the run's beginning: what was registered before a
kill isn't fitted again. Nor is a model whose champion, or last candidate, saw the same rows, unless the champion is
stale.
"""

from __future__ import annotations

from datetime import timedelta

from convoy.brain.batch import fit as fits
from convoy.brain.batch.fit import Order
from convoy.brain.batch.work import Document, Result, Work, told, trace
from convoy.brain.models.registry import ModelFile
from convoy.brain.store.model_files import Registry, Stage, Version
from convoy.core.api.envelope import VERSION
from convoy.core.api.errors import ConvoyError, Unavailable
from convoy.core.process import logs
from convoy.core.process.crashpoint import crash_point

log = logs.get("brain.batch")


def fit(work: Work) -> Result:
    """Fit what is to be fitted. The failure of one model doesn't stop the others.

    Raises:
        Unavailable: the database, or where models are fitted, can't be reached.
    """
    document: Document = {}
    orders: list[Order] = []
    for name, found in work.run.report["features"].items():
        work.check()
        if "rows" not in found:
            document[name] = dict(found)
            continue
        done = _done_before(work, name, found["digest"])
        if done is not None:
            document[name] = done
        else:
            try:
                orders.append(work.orders.get(name) or _read(work, name))
            except Unavailable:
                raise
            except ConvoyError as error:
                document[name] = {"error": told(error)}

    def progress(step: str) -> None:
        work.check()
        work.around.progress("fit", step)

    for made in work.around.fitter.make(orders, progress):
        if made.file is not None:
            document[made.name] = _registered(work, made.file)
        else:
            assert made.error is not None
            if isinstance(made.error, Unavailable):
                raise made.error
            log.error("a model couldn't be fitted", model=made.name, why=told(made.error), exc_info=trace(made.error))
            document[made.name] = {"error": told(made.error)}
    return Result({name: document[name] for name in work.run.report["features"]})


def _read(work: Work, name: str) -> Order:
    work.around.progress("fit", f"{name}: reading the store")
    return fits.read(work.around.engine, work.around.registry, name, work.now)


def _registered(work: Work, file: ModelFile) -> Document:
    try:
        version = work.around.registry.register(file)
    except Unavailable:
        raise
    except ConvoyError as error:
        return {"error": told(error)}
    crash_point("batch.fit.after-model")
    return _fitted(version)


def _done_before(work: Work, name: str, digest: str) -> Document | None:
    """Return what there is to say of a model that needn't be fitted, None of one that does."""
    registry = work.around.registry
    known = registry.versions(name)
    ours = next((version for version in known if version.created_at == work.now), None)
    if ours is not None:
        return _fitted(ours)
    champion = next((version for version in known if version.stage is Stage.CHAMPION), None)
    fresh = timedelta(days=work.around.settings.models_fresh_days)
    if champion is not None and work.now - champion.created_at > fresh:
        return None
    for version in {one.number: one for one in (champion, *known[:1]) if one is not None}.values():
        if version.code_version == VERSION and _fitted_to(registry, version) == digest:
            return {"outcome": "unchanged", "version": version.number, "rows": version.rows, "jobs": version.jobs}
    return None


def _fitted_to(registry: Registry, version: Version) -> str:
    """Return the digest of the rows that a version was fitted to; "" where its file can't be used."""
    try:
        return registry.read(version).facts.fitted_to
    except ConvoyError:
        return ""


def _fitted(version: Version) -> Document:
    return {
        "outcome": "fitted",
        "version": version.number,
        "rows": version.rows,
        "jobs": version.jobs,
        "seconds": round(version.seconds, 3),
        "score": version.score,
    }
