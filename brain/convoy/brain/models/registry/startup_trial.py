"""The back-test by which a start-up model is promoted: each past job is recommended for without having been seen.

As with demand, a kind of model is tested, fitted anew to the jobs that aren't asked about.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from convoy.brain.models.backtest.startup import Startup, startup_backtest
from convoy.brain.models.registry.backtest import BackTest, JobScore
from convoy.brain.models.registry.facts import frame_digest

PROTOCOL = "each past job from the others, in ten parts; its numbers' errors averaged"
LEVEL = 0.9
UNKNOWN = 1.0
"""The error of a number for which nothing is recommended."""


def startup_trial(kind: type[Startup], jobs: pd.DataFrame, of: str) -> BackTest:
    """Return the back-test of a kind of start-up model. It gives no intervals.

    A number's error is that of recommended to right, or of right to recommended, whichever is the larger, less 1.

    Args:
        kind: of model.
        jobs: as ``StartupModel.fit`` takes them.
        of: whose the back-test is.
    """
    found = startup_backtest(jobs, "job", {of: kind})
    errors = np.expm1(found["log_error"].abs().to_numpy(dtype=np.float64))
    rows = found.assign(error=np.where(np.isfinite(errors), errors, UNKNOWN))
    scores = tuple(
        JobScore(str(name), len(own), float(own["error"].mean())) for name, own in rows.groupby("job", sort=True)
    )
    return BackTest(of, PROTOCOL, LEVEL, frame_digest(jobs), scores)
