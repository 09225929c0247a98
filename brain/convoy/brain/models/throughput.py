"""How fast a job would run at configurations at which it hasn't run: samples/s with intervals.

The physics is in ``physics``, what history teaches in ``prior``, inference in ``posterior``.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict

import numpy as np
import pandas as pd
from scipy.stats import t as student

from convoy.brain.models.frame import (
    DEFAULT_WINDOW_SECONDS,
    Observations,
    configurations_of,
    labels_of,
    observations_of,
    repeat_scatter,
)
from convoy.brain.models.physics import Array, Configurations
from convoy.brain.models.posterior import Draws, Posterior, infer
from convoy.brain.models.prior import HistoryJob, Prior, learn

SCOPE_DRAWS = 1500
CACHED_PRIORS = 64
LEARNED_CONFIGURATIONS = 48
"""Configurations of one job that a prior is learned from: more add little to eight coefficients."""
COLUMNS = ("mean", "lower", "upper", "latent_sd", "reason")


class ThroughputModel:
    """Speed of synchronous all-reduce jobs, from a history of jobs and a job's own observations.

    Conventions are scikit-learn's: ``fit`` learns from a history and returns the model; attributes learned end in
    ``_``. Frames have one row a measurement, or a question; columns, absent or NaN where unknown:

    ``job`` (rows of equal ``job`` belong together; absent: one job), ``template``, ``model``, ``cluster``,
    ``accelerator``, ``node_type`` (labels: which jobs are alike), ``strategy`` ("allreduce"), ``workers`` (processes,
    required), ``nodes``, ``batch_size`` (per worker and micro-step), ``accumulation_steps``, ``worker_cpu`` (allotted
    cores), ``cluster_cpu`` (cores that the job can have in its cluster), ``throughput`` (samples/s),
    ``throughput_sd`` (its standard error), ``observed_at`` (UTC), ``window_seconds``, ``status`` ("ok" | "failed" |
    "oom" | "warming"; only "ok" is learned from).

    Undefined, that is NaN in all numbers with a reason, only where
      - the question isn't a configuration: ``InvalidConfiguration`` (no workers, a batch of zero, infinite...);
      - the strategy isn't all-reduce: ``StrategyNotModelled``;
      - neither the history nor the job showed a usable measurement: ``NothingKnown``.
    All else is finite, with 0 < lower <= mean <= upper.

    Reasons of defined rows: ``Observed`` (this configuration ran), ``Interpolated`` (within the workers, nodes and
    batches seen), ``Extrapolated`` (beyond them, with history), ``HistoryOnly`` (the job wasn't observed),
    ``NoHistory`` (beyond what the job showed, and no history says how jobs scale: a physical default with a wide
    interval).
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.prior_ = Prior()
        self._draws: OrderedDict[tuple[object, ...], list[Draws]] = OrderedDict()

    def fit(self, history: pd.DataFrame) -> ThroughputModel:
        """Learn from measurements of past jobs; an empty history leaves the physical default."""
        jobs, squares, freedom = [], 0.0, 0.0
        for name, rows in _by_job(history):
            observations = observations_of(rows).thinned(LEARNED_CONFIGURATIONS)
            if len(observations):
                jobs.append(HistoryJob(name, labels_of(rows), observations))
                scatter = repeat_scatter(rows)
                squares, freedom = squares + scatter[0], freedom + scatter[1]
        self.prior_ = learn(sorted(jobs, key=lambda job: job.name), (squares, freedom))
        self._draws.clear()
        return self

    @property
    def history_jobs(self) -> int:
        """Jobs whose evidence formed the prior."""
        return len(self.prior_.jobs)

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict the mean speed over each question's ``window_seconds`` (300 where absent).

        Args:
            observed: measurements of the jobs asked about; may be empty. Rows of the history of the same jobs are
            ignored. query: one row a question. level: probability of the interval, in (0, 1).

        Returns:
            A frame with the query's index and columns ``mean`` (exp of the mean log speed), ``lower``, ``upper``
            (samples/s), ``latent_sd`` (of log speed, without the noise of measuring it) and ``reason``.

        Raises:
            ValueError: ``level`` isn't within (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level is {level}: expected a probability between 0 and 1, such as 0.9")
        numbers = np.full((len(query), 4), np.nan)
        reasons: np.ndarray[tuple[int], np.dtype[np.object_]] = np.full(len(query), "", dtype=object)
        for rows, posterior, configurations, why in self._posteriors(observed, query):
            reasons[rows] = why
            usable = why == ""
            if posterior is None:
                reasons[rows[usable]] = "NothingKnown"
                continue
            if not usable.any():
                continue
            asked = configurations.take(np.flatnonzero(usable))
            values, left = posterior.latent(asked)
            noise = self.prior_.misfit.session_sd**2 + _window_variance(query.iloc[rows[usable]])
            numbers[rows[usable]] = _summary(values, left, noise, level, 5.0 + self.history_jobs)
            reasons[rows[usable]] = self._reasons(posterior.observations, asked)
        frame = pd.DataFrame(numbers, index=query.index, columns=list(COLUMNS[:4]))
        frame["reason"] = pd.Series(reasons, index=query.index, dtype=object)
        return frame

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        """Return joint draws (draws, rows of ``query``) of the latent speeds in samples/s; NaN where undefined."""
        result = np.full((draws, len(query)), np.nan)
        for rows, posterior, configurations, why in self._posteriors(observed, query):
            usable = why == ""
            if posterior is not None and usable.any():
                generator = np.random.default_rng(seed)
                asked = configurations.take(np.flatnonzero(usable))
                result[:, rows[usable]] = np.exp(np.clip(posterior.joint(asked, draws, generator), -600, 600))
        return result

    def _posteriors(
        self, observed: pd.DataFrame, query: pd.DataFrame
    ) -> list[
        tuple[
            np.ndarray[tuple[int], np.dtype[np.intp]],
            Posterior | None,
            Configurations,
            np.ndarray[tuple[int], np.dtype[np.object_]],
        ]
    ]:
        """Return for each job asked about: its rows, posterior, configurations and what makes one unusable."""
        seen = dict(_by_job(observed))
        one = next(iter(seen)) if len(seen) == 1 else None
        answers = []
        for name, rows in _by_job(query, default=one):
            own = seen.get(name, observed.iloc[:0])
            places = np.asarray(rows["__row__"], dtype=np.intp)
            configurations, why = configurations_of(rows)
            observations = observations_of(own)
            labels = {**labels_of(own), **labels_of(rows)}
            answers.append((places, self._posterior(name, labels, observations), configurations, why))
        return answers

    def _posterior(self, name: str, labels: dict[str, str], observations: Observations) -> Posterior | None:
        prior = self._prior_draws(name, labels)
        if not len(observations) and len(prior) == 1:
            return None
        # the same question has the same answer: the seed follows from the job
        generator = np.random.default_rng([self.seed, zlib.crc32(name.encode())])
        return infer(observations, prior, self.prior_.misfit, generator)

    def _prior_draws(self, name: str, labels: dict[str, str]) -> list[Draws]:
        known = any(job.name == name for job in self.prior_.jobs)
        key = (name if known else None, tuple(sorted(labels.items())))
        if key in self._draws:
            self._draws.move_to_end(key)
            return self._draws[key]
        generator = np.random.default_rng(self.seed)
        draws = [Draws.of(scope, SCOPE_DRAWS, generator) for scope in self.prior_.scopes(labels, without=(name,))]
        self._draws[key] = draws
        if len(self._draws) > CACHED_PRIORS:
            self._draws.popitem(last=False)
        return draws

    def _reasons(
        self, observations: Observations, asked: Configurations
    ) -> np.ndarray[tuple[int], np.dtype[np.object_]]:
        if not len(observations):
            return np.full(len(asked), "HistoryOnly", dtype=object)
        beyond = "Extrapolated" if self.history_jobs else "NoHistory"
        seen, wanted = observations.configurations.features, asked.features
        inside = np.all((wanted >= seen.min(axis=0) - 1e-9) & (wanted <= seen.max(axis=0) + 1e-9), axis=1)
        distance = np.min(np.max(np.abs(wanted[:, None, :] - seen[None, :, :]), axis=2), axis=1)
        return np.where(distance < 1e-6, "Observed", np.where(inside, "Interpolated", beyond)).astype(object)


def _by_job(frame: pd.DataFrame, default: str | None = None) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each job, a column ``__row__`` with their places added; rows without a job are one job's."""
    if not len(frame):
        return []
    numbered = frame.assign(__row__=np.arange(len(frame)))
    fallback = default if default is not None else ""
    if "job" not in frame.columns:
        return [(fallback, numbered)]
    names = frame["job"].astype(object).where(frame["job"].notna(), fallback).astype(str).to_numpy()
    return [(str(name), numbered[names == name]) for name in pd.unique(names)]


def _window_variance(rows: pd.DataFrame) -> Array:
    from convoy.brain.models.frame import WINDOW_NOISE

    if "window_seconds" in rows.columns:
        window = pd.to_numeric(rows["window_seconds"], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        window = np.full(len(rows), np.nan)
    window = np.where(np.isfinite(window) & (window > 0), window, DEFAULT_WINDOW_SECONDS)
    return np.minimum(WINDOW_NOISE**2 * 10.0 / window, 0.09)


def _summary(values: Array, left: Array, noise: Array, level: float, freedom: float) -> Array:
    """Return mean, lower, upper, latent sd (n, 4) of draws (draws, n) of log speed with variances left and noise.

    The interval has a spread of its own on each side of the mean, since what is unknown about scaling is lopsided: no
    job runs faster than its workers together.
    """
    mean = values.mean(axis=0)
    away = values - mean
    below = np.maximum(-away, 0.0)
    above = np.maximum(away, 0.0)
    share = np.clip((away < 0).mean(axis=0), 0.05, 0.95)
    variance_below = np.mean(below**2, axis=0) / share
    variance_above = np.mean(above**2, axis=0) / (1 - share)
    quantile = float(student.ppf(0.5 + level / 2, freedom))
    lower = mean - quantile * np.sqrt(variance_below + left + noise)
    upper = mean + quantile * np.sqrt(variance_above + left + noise)
    latent = np.sqrt(values.var(axis=0) + left)
    bounded = np.clip(np.column_stack([mean, lower, upper]), -600, 600)
    return np.column_stack([np.exp(bounded), latent])
