"""Stage ``promote``: each new candidate becomes the champion, or doesn't, by its back-test."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from convoy.brain.batch.work import Document, Result, Work, told
from convoy.brain.store.model_files import Version
from convoy.core.api.errors import ConvoyError, Unavailable
from convoy.core.process.crashpoint import crash_point


def promote(work: Work) -> Result:
    """Decide about each version of this run that wasn't decided about; say which champion there is after it.

    Raises:
        Unavailable: the database can't be reached.
    """
    document: Document = {}
    for name, fitted in work.run.report["fit"].items():
        work.check()
        work.around.progress("promote", name)
        try:
            document[name] = {**_decided(work, name, fitted), "champion": _champion(work, name)}
        except Unavailable:
            raise
        except ConvoyError as error:
            document[name] = {"error": told(error)}
        crash_point("batch.promote.after-model")
    return Result(document)


def _decided(work: Work, name: str, fitted: Document) -> Document:
    """Return the decision about what was fitted, empty where nothing was."""
    if fitted.get("outcome") != "fitted":
        return {}
    registry, days = work.around.registry, work.around.settings.models_fresh_days
    version = registry.version(name, fitted["version"])
    decision = version.decision
    if not decision:
        decision = registry.consider(version, work.now, fresh=timedelta(days=days)).document()
    return {key: decision[key] for key in ("verdict", "reason", "message")}


def _champion(work: Work, name: str) -> dict[str, Any] | None:
    champion: Version | None = work.around.registry.champion(name)
    return None if champion is None else {"version": champion.number, "fitted_at": champion.created_at.isoformat()}
