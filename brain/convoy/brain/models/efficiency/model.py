"""What a sample is worth at batches at which a job doesn't train, with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtrit

from convoy.brain.models.efficiency.drift import FREEDOM, Belief, Drift, believe, learn
from convoy.brain.models.efficiency.gain import log_efficiency
from convoy.brain.models.efficiency.readings import Array, Readings, global_batch, moments, readings_of
from convoy.brain.models.state import State
from convoy.core.api.errors import InvalidInput

COLUMNS = ("mean", "lower", "upper", "latent_sd", "reason")
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LARGEST = 600.0


@dataclass(frozen=True)
class _Asked:
    """What is asked of one job."""

    rows: NDArray[np.intp]
    """Places of its questions in the query."""
    reasons: NDArray[np.object_]
    """Of each."""
    defined: NDArray[np.intp]
    """Places of those, in the query, that have an answer."""
    log_scale: Array
    """Of the defined ones, logarithm of the global batch over the initial one."""
    belief: Belief | None
    """About the noise scale at the defined ones; None: there are none."""


class EfficiencyModel:
    """Efficiency of a sample by global batch: its progress, in samples of the initial batch (1 at that batch).

    Frames are ``ThroughputModel``'s. Read of observed rows: ``job``, ``grad_sqr`` (squared norm of the mean
    gradient) and ``grad_var`` (variance of the gradient of one initial batch), ``workers``, ``batch_size``,
    ``accumulation_steps`` (their product is the global batch), ``observed_at`` and ``window_seconds`` (by which noise
    ages; absent: rows are in the order of time), and ``initial_batch``: the batch (samples) at whose scale
    ``grad_var`` stands; absent: the smallest global batch of the job's rows. Of the query: ``job``, those that make
    the global batch, and ``observed_at`` where efficiency is asked for later than at the last reading.

    Undefined, that is NaN in all numbers with a reason, only where
      - the job reported no gradient statistics: ``NotReported``;
      - no row that reports some has a batch, or the question has none: ``BatchUnknown``;
      - no squared norm of a gradient is positive, however many are added up: ``OnlyNoise``.
    All else is finite, with 0 < lower <= mean <= upper.

    Reasons of defined rows: ``InitialBatch`` (1 by definition), ``Observed`` (statistics were reported at this
    batch), ``Predicted``.
    """

    def __init__(self) -> None:
        self.drift_ = Drift()
        self.jobs_ = 0

    def fit(self, history: pd.DataFrame) -> EfficiencyModel:
        """Learn how noise drifts from past jobs that reported it; without any, an assumed drift stays.

        What is learned are seven numbers of all jobs together, so that a job's own rows needn't be left out.
        """
        reported = history.iloc[:0] if "grad_sqr" not in history.columns else history[history["grad_sqr"].notna()]
        jobs = [job for _, rows in _by_job(reported) if len(job := readings_of(rows)) > 1]
        self.drift_, self.jobs_ = learn(jobs), len(jobs)
        return self

    @property
    def history_jobs(self) -> int:
        """Jobs that were learned from."""
        return self.jobs_

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict the efficiency that a reading at each question's batch would show.

        Args:
            observed: rows of the jobs asked about; may be empty.
            query: one row a question.
            level: probability of the interval, in (0, 1).

        Returns:
            A frame with the query's index and columns ``mean`` (exp of the mean latent log efficiency), ``lower``,
            ``upper``, ``latent_sd`` (of log efficiency, without the noise of a reading) and ``reason``. The interval
            is Student's: drift has jumps (learning rates fall) as readings have outliers.

        Raises:
            InvalidInput: ``level`` isn't within (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise InvalidInput(f"level is {level}: expected a probability between 0 and 1, such as 0.9")
        numbers = np.full((len(query), 4), np.nan)
        reasons: NDArray[np.object_] = np.full(len(query), "", dtype=object)
        for asked in self._asked(observed, query):
            reasons[asked.rows] = asked.reasons
            if asked.belief is not None:
                numbers[asked.defined] = _summary(asked.belief, asked.log_scale, level)
        frame = pd.DataFrame(numbers, index=query.index, columns=list(COLUMNS[:4]))
        return frame.assign(reason=pd.Series(reasons, index=query.index, dtype=object))

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        """Return joint draws (draws, rows of ``query``) of the latent efficiencies; NaN where undefined."""
        result = np.full((draws, len(query)), np.nan)
        for asked in self._asked(observed, query):
            if asked.belief is not None:
                generator = np.random.default_rng(seed)
                deviations = generator.standard_normal((draws, len(asked.defined)))
                # one stretch a draw: where a job strays further than others do, it does so at all of its batches
                deviations /= np.sqrt(generator.chisquare(FREEDOM, (draws, 1)) / FREEDOM)
                noise = asked.belief.mean + deviations @ _root(asked.belief.covariance).T
                result[:, asked.defined] = np.exp(log_efficiency(asked.log_scale, _cut(noise)))
        return result

    def state(self) -> State:
        """Return what was learned, for a model file."""
        return State({"drift": asdict(self.drift_), "jobs": self.jobs_})

    @classmethod
    def restored(cls, state: State) -> EfficiencyModel:
        """Return the model that ``state`` was taken of."""
        model = cls()
        model.drift_, model.jobs_ = Drift(**state.document["drift"]), int(state.document["jobs"])
        return model

    def _asked(self, observed: pd.DataFrame, query: pd.DataFrame) -> Iterator[_Asked]:
        seen = {name: rows for name, rows in _by_job(observed) if name or len(rows)}
        one = next(iter(seen)) if len(seen) == 1 else ""
        for name, rows in _by_job(query.assign(__row__=np.arange(len(query))), one):
            places = rows["__row__"].to_numpy(dtype=np.intp)
            yield self._of_job(readings_of(seen.get(name, observed.iloc[:0])), rows, places)

    def _of_job(self, readings: Readings, rows: pd.DataFrame, places: NDArray[np.intp]) -> _Asked:
        batch = global_batch(rows)
        reasons: NDArray[np.object_] = np.full(len(rows), readings.reason or "BatchUnknown", dtype=object)
        defined = np.flatnonzero(~np.isnan(batch)) if not readings.reason else np.zeros(0, dtype=np.intp)
        if not len(defined):
            return _Asked(places, reasons, places[defined], np.zeros(0), None)
        log_scale = np.log(batch[defined]) - np.log(readings.initial_batch)
        size = log_scale / np.log(2.0)
        ran = np.any(np.abs(size[:, None] - readings.size[None, :]) < 1e-9, axis=1)
        reasons[defined] = np.where(size == 0, "InitialBatch", np.where(ran, "Observed", "Predicted"))
        belief = believe(self.drift_, readings, readings.age_at(moments(rows)[defined]), size)
        return _Asked(places, reasons, places[defined], log_scale, belief)


def _by_job(frame: pd.DataFrame, default: str = "") -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield each job's name and rows; a row that doesn't say is of ``default``."""
    if "job" not in frame.columns:
        if len(frame):
            yield default, frame
        return
    names = frame["job"].astype(object).where(frame["job"].notna(), default).astype(str)
    for name, rows in frame.groupby(names.to_numpy(dtype=object), sort=False):
        yield str(name), rows


def _root(covariance: Array) -> Array:
    """Return a triangle whose product with its transpose is the covariance, to a billionth of its largest entry."""
    jitter = 1e-9 * float(np.max(np.diag(covariance), initial=0.0)) + 1e-12
    return np.asarray(np.linalg.cholesky(covariance + jitter * np.eye(len(covariance))))


def _cut(noise: Array) -> Array:
    return np.clip(noise, -_LARGEST, _LARGEST)


def _summary(belief: Belief, log_scale: Array, level: float) -> Array:
    """Return mean, lower, upper, latent standard deviation (n, 4); efficiency is monotone in the noise."""
    latent = np.sqrt(np.maximum(np.diag(belief.covariance), 0.0))
    sd = np.hypot(latent, belief.reading_sd)
    half = float(stdtrit(FREEDOM, 0.5 + level / 2.0)) * sd
    ends = [log_efficiency(log_scale, _cut(belief.mean + sign * half)) for sign in (-1.0, 1.0)]
    lower, upper = np.minimum(*ends), np.maximum(*ends)

    values = log_efficiency(log_scale[:, None], _cut(belief.mean[:, None] + latent[:, None] * _NODES))
    mean = values @ _WEIGHTS
    latent_sd = np.sqrt(np.maximum((values - mean[:, None]) ** 2 @ _WEIGHTS, 0.0))
    table = np.exp(np.clip([np.clip(mean, lower, upper), lower, upper], -_LARGEST, _LARGEST))
    return np.column_stack([*table, latent_sd])
