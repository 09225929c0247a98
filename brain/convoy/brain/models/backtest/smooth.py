"""What a job's speeds would be without the noise of measuring them: a fit to all of its rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve
from scipy.spatial.distance import cdist

from convoy.brain.models.baselines.gaussian_process import log_scales
from convoy.brain.models.baselines.rows import rows_of

Array = NDArray[np.float64]


def smoothed(rows: pd.DataFrame) -> Array:
    """Return the speed at each row by a Gaussian process on logarithms, Matern 5/2, fitted to all rows of the job."""
    known = rows_of(rows)
    moving = known.features.std(axis=0) > 0
    features = known.features[:, moving]
    if not moving.any():
        return np.exp(known.log_speed)
    amplitude, *lengths, noise = np.exp(log_scales(features, known.log_speed))
    distance = np.sqrt(5.0) * cdist(features / lengths, features / lengths)
    covariance = amplitude**2 * (1.0 + distance + distance**2 / 3.0) * np.exp(-distance)
    level = float(np.mean(known.log_speed))
    factor = cho_factor(covariance + max(noise, 1e-3) ** 2 * np.eye(len(features)))
    return np.asarray(np.exp(level + covariance @ cho_solve(factor, known.log_speed - level)))
