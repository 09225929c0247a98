"""How much each observation of a job counts for a prediction.

With log speeds and readings y, coefficients theta and a Gaussian for y around h(theta), covariance S, the mean of a
prediction f moves with y by

    d E[f | y] / dy = E[d f / dy] + Cov(f, S^-1 h(theta))        both over the posterior

of which the first is the misfit's (a neighbour's error is an own error, too), the second the coefficients'. Exact but
for what makes observations distrusted, and but for the draws: in a job whose coefficients were Gaussian, leaving out
observation j changed the prediction by its weight times what it is off from what the others say of it.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve, cholesky

from convoy.brain.models.throughput.physics import Array, Configurations
from convoy.brain.models.throughput.posterior import Posterior


def weights(posterior: Posterior, query: Configurations) -> Array:
    """Return by how much log speed at ``query`` moves with what was seen, (n, k + r): speeds first, then readings."""
    seen = posterior.seen
    count = len(seen.observations)
    features = query.features
    _, known = posterior.misfit.latent(features, seen.observations.group)
    fixed, own = posterior.misfit.kernels(features, seen.features, known, seen.known)
    direct = np.zeros((len(query), len(seen)))
    values, scores = [], []
    total = sum(len(part.theta) for part in posterior.parts)
    for part, latent in zip(posterior.parts, posterior.latent(query), strict=True):
        factor = cholesky(seen.covariance(part.scale, posterior.trust), lower=True)
        cross = fixed + part.scale**2 * own
        direct[:, :count] += len(part.theta) / total * cho_solve((part.factor, True), cross.T).T
        residual = seen.values - seen.physics(part.theta)
        scores.append(-cho_solve((factor, True), residual.T).T)
        values.append(latent.values)
    value, score = np.vstack(values), np.vstack(scores)
    return np.asarray(direct + (value - value.mean(axis=0)).T @ score / (len(value) - 1))
