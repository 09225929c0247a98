"""How much each observation of a job counts for a prediction.

With log speeds and readings y, coefficients theta and a Gaussian for y around h(theta), covariance S, the mean of a
prediction f moves with y by

    d E[f | y] / dy = E[d f / dy] + Cov(f, S^-1 h(theta))        both over the posterior

of which the first is the misfit's (a neighbour's error is an own error, too), the second the coefficients'. Exact but
for what makes observations distrusted, and but for the draws: in a job whose coefficients were Gaussian, leaving out
observation j changed the prediction by its weight times what it is off from what the others say of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky
from scipy.special import logsumexp

from convoy.brain.models.throughput.misfit import Seen
from convoy.brain.models.throughput.physics import Array, Configurations
from convoy.brain.models.throughput.posterior import Posterior, gaussian_log_density


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


def reweighed(posterior: Posterior, kept: NDArray[np.intp], query: Configurations) -> tuple[Array, float]:
    """Return mean log speed at ``query`` (n,) if only the observations at ``kept`` had been made, and how well known.

    The posterior's draws, each weighed by how likely what is kept is under it beside all of it (importance
    sampling). The second number is that of equally weighed draws which tell as much: where it is small, the draws
    lie elsewhere than they would, and the answer is none.
    """
    seen = posterior.seen
    count = len(seen.observations)
    inside = np.concatenate([kept, count + np.flatnonzero(np.isin(seen.place, kept))])
    parts, logs = [], []
    for part in posterior.parts:
        covariance = seen.covariance(part.scale, posterior.trust)
        residual = seen.values - seen.physics(part.theta)
        some = cholesky(covariance[np.ix_(inside, inside)], lower=True)
        logs.append(
            gaussian_log_density(residual[:, inside], some)
            - gaussian_log_density(residual, cholesky(covariance, lower=True))
        )
        factor = cholesky(covariance[np.ix_(kept, kept)], lower=True)
        parts.append(replace(part, factor=factor, residual=part.residual[:, kept]))
    weight = np.concatenate(logs)
    weight = np.exp(weight - logsumexp(weight))
    rest = Seen.of(seen.observations.take(kept), posterior.misfit, seen.form)
    left = replace(posterior, parts=tuple(parts), seen=rest)
    values = np.vstack([latent.values for latent in left.latent(query)])
    return weight @ values, float(1 / np.sum(weight**2))
