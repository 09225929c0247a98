"""Stage ``feedback``: what came of plans that were carried out, put to the models that predicted it."""

from __future__ import annotations

from dataclasses import asdict

from convoy.brain.batch import feedback
from convoy.brain.batch.work import Document, Result, Work, told
from convoy.core.api.errors import ConvoyError, Unavailable


def note_outcomes(work: Work) -> Result:
    """Write down how right each version was in use; a failure is told, and stops nothing.

    Raises:
        Unavailable: the database can't be reached.
    """
    around = work.around
    try:
        written = feedback.refresh(around.engine, around.registry, around.settings, work.now)
    except Unavailable:
        raise
    except ConvoyError as error:
        return Result({"error": told(error), "versions": []})
    return Result({"versions": [_noted(version.number, asdict(error)) for version, error in written]})


def _noted(version: int, error: Document) -> Document:
    return {"model": feedback.MODEL, "version": version, **error}
