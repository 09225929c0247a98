"""Plans with what came of them and what they cost, for people and for the models' figures."""

from __future__ import annotations

import pandas as pd
from sqlalchemy.engine import Engine

from convoy.brain.features.outcomes import plan_outcomes
from convoy.brain.plan.feedback import priced
from convoy.brain.settings import BrainSettings


def outcomes(engine: Engine, settings: BrainSettings, job_uid: str | None = None) -> pd.DataFrame:
    """Return plans with their outcomes (``plan_outcomes``) and costs (``priced``, at the settings' prices).

    Raises:
        NotFound: no job of that uid is known.
        Unavailable: the database can't be reached now.
    """
    return priced(plan_outcomes(engine, job_uid), settings.prices())
