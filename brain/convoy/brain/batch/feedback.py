"""What came of plans goes into the figures of the models that predicted it: recommendation, plan, outcome, model."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy.engine import Engine

from convoy.brain.models.registry.feedback import ModelError, model_error
from convoy.brain.report.outcomes import outcomes
from convoy.brain.settings import BrainSettings
from convoy.brain.store.model_files import Registry, Version

MODEL = "throughput"
"""The model that predicts plans."""


def refresh(
    engine: Engine, registry: Registry, settings: BrainSettings, now: datetime
) -> list[tuple[Version, ModelError]]:
    """Write down the errors of each version of which plans were carried out; of the champion in any case.

    Doing it again comes to the same. Returns what was written.

    Raises:
        Unavailable: the database can't be reached now.
    """
    found = outcomes(engine, settings)
    champion = registry.champion(MODEL)
    digests = set(found["model"].dropna()) | ({champion.digest} if champion is not None else set())
    written = []
    for version in registry.versions(MODEL):
        if version.digest in digests:
            error = model_error(found[found["model"] == version.digest])
            registry.note_feedback(version, error.document(), now)
            written.append((version, error))
    return written
