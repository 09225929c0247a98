"""What all baselines share: their interface, which rows they answer, intervals from the residuals of their fits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student

from convoy.brain.models.baselines.rows import FOREIGN, Array, Rows, job_names, rows_of
from convoy.brain.models.state import State
from convoy.core.api.errors import InvalidInput

COLUMNS = ("mean", "lower", "upper", "latent_sd", "reason")

ASSUMED_SD, ASSUMED_ROWS = 0.3, 3.0
"""A fit that passes through its points has shown no error: residuals of 30 % of three rows count beforehand."""

MOST_ROWS = 256
"""Rows of one job that are used, spread evenly over all."""

NORMAL = 1e6
"""Degrees of freedom at which Student's t is the normal distribution."""

LARGEST = 600.0
"""Logarithms of speed beyond it are cut, so that every speed is finite."""


@dataclass(frozen=True)
class Fitted:
    """A baseline's answer about one job."""

    log_speed: Array
    """At each asked row; NaN: undefined."""
    residuals: Array
    """Of the observed rows' log speed."""
    parameters: int = 0
    """How many numbers were fitted to those rows."""
    sd: Array | None = None
    """Of log speed at each asked row, where the model gives one of its own."""
    reason: str = "Fitted"
    """Why the undefined are undefined, where all others are ``Fitted``."""


class Baseline(ABC):
    """A published way to predict speed, with ``ThroughputModel``'s interface and columns.

    The interval is a Student-t interval of log speed, equally wide at all rows: its spread is that of the residuals
    of the fit to the job's own rows, with ``ASSUMED_ROWS`` rows of ``ASSUMED_SD`` counted beforehand, and as many
    degrees of freedom as rows are left over parameters, plus those. It knows nothing of extrapolation, as the methods
    don't.

    Undefined (NaN, with a reason): ``InvalidConfiguration``; ``StrategyNotModelled``: the method has no form for it;
    ``TooFewObservations``: of the job, for this method; ``NothingKnown``: neither job nor history was measured.
    """

    least: ClassVar[int] = 1
    """Fewest different configurations of the job that must have been measured."""
    learns: ClassVar[bool] = True
    """Whether a history is used; a model that doesn't keeps none of it."""

    def __init__(self) -> None:
        self.history_ = rows_of(pd.DataFrame({"workers": []}))

    def fit(self, history: pd.DataFrame) -> Self:
        """Learn from measurements of past jobs; methods that only look at the job itself learn nothing."""
        rows = rows_of(history if self.learns else history.iloc[:0])
        rows = rows.take(rows.measured)
        self._begin(rows.take(_spread(rows.job)))
        return self

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict speeds.

        Args:
            observed: measurements of the jobs asked about; may be empty. History of the same jobs is ignored.
            query: one row a question.
            level: probability of the interval, in (0, 1).

        Returns:
            A frame with the query's index and columns ``mean`` (exp of the mean log speed), ``lower``, ``upper``
            (samples/s), ``latent_sd`` (of log speed) and ``reason``.

        Raises:
            InvalidInput: ``level`` isn't within (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise InvalidInput(f"level is {level}: expected a probability between 0 and 1, such as 0.9")
        middle, sd, freedom, reasons = self._answers(observed, query)
        half = student.ppf(0.5 + level / 2, freedom) * sd
        logs = np.clip(np.column_stack([middle, middle - half, middle + half]), -LARGEST, LARGEST)
        frame = pd.DataFrame(np.exp(logs), index=query.index, columns=list(COLUMNS[:3]))
        return frame.assign(latent_sd=sd, reason=pd.Series(reasons, index=query.index, dtype=object))

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        """Return draws (draws, rows of ``query``) of speeds in samples/s, rows independent; NaN where undefined."""
        middle, sd, freedom, _ = self._answers(observed, query)
        deviations = np.random.default_rng(seed).standard_t(freedom, (draws, len(query)))
        return np.asarray(np.exp(np.clip(middle + sd * deviations, -LARGEST, LARGEST)))

    @property
    def history_jobs(self) -> int:
        """Jobs that were learned from."""
        return len(np.unique(self.history_.job))

    def state(self) -> State:
        """Return what ``restored`` needs: the history's rows, as arrays."""
        return self.history_.state()

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the model of a state."""
        model = cls()
        model._begin(Rows.restored(state))
        return model

    def _begin(self, history: Rows) -> None:
        self.history_ = history
        self._learn(history)

    def _learn(self, history: Rows) -> None:  # noqa: B027 - most take nothing from a history
        """Learn from the usable rows of past jobs."""

    def _covers(self, rows: Rows) -> NDArray[np.bool_]:
        """Return for which rows' strategy and mode the method has a form."""
        return np.asarray(rows.strategy != FOREIGN)

    @abstractmethod
    def _fit_job(self, name: str, own: Rows, asked: Rows) -> Fitted:
        """Answer about one job from its usable rows; all rows given are covered configurations."""

    def _answers(
        self, observed: pd.DataFrame, query: pd.DataFrame
    ) -> tuple[Array, Array, Array, NDArray[np.object_]]:
        """Return mean and standard deviation of log speed, degrees of freedom, and a reason, for each question."""
        names = job_names(observed)
        one = str(names[0]) if len(names) and (names == names[0]).all() else ""
        known, wanted = rows_of(observed), rows_of(query, one)
        known = known.take(known.measured)
        middle, sd = np.full(len(wanted), np.nan), np.full(len(wanted), np.nan)
        freedom = np.full(len(wanted), ASSUMED_ROWS)
        reasons: NDArray[np.object_] = np.full(len(wanted), "InvalidConfiguration", dtype=object)
        covered = self._covers(wanted)
        reasons[wanted.valid & ~covered] = "StrategyNotModelled"
        for place, name in enumerate(wanted.names):
            places = np.flatnonzero((wanted.job == place) & wanted.valid & covered)
            if not len(places):
                continue
            own = known.of_job(name)
            own = own.take(self._covers(own))
            own = own.take(_spread(own.job))
            fitted = self._fitted(name, own, wanted.take(places))
            middle[places] = fitted.log_speed
            spread, freedom[places] = _spread_of(fitted)
            if fitted.sd is None:
                sd[places] = spread
            else:
                sd[places], freedom[places] = fitted.sd, NORMAL
            reasons[places] = np.where(np.isfinite(fitted.log_speed), "Fitted", fitted.reason)
        sd[~np.isfinite(middle)] = np.nan
        return middle, sd, freedom, reasons

    def _fitted(self, name: str, own: Rows, asked: Rows) -> Fitted:
        if len(np.unique(own.features, axis=0)) < self.least:
            nothing = np.full(len(asked), np.nan)
            return Fitted(nothing, np.zeros(0), reason="TooFewObservations")
        return self._fit_job(name, own, asked)


def _spread_of(fitted: Fitted) -> tuple[float, float]:
    """Return the standard deviation of log speed that residuals show, and its degrees of freedom."""
    freedom = ASSUMED_ROWS + max(len(fitted.residuals) - fitted.parameters, 0)
    squares = ASSUMED_ROWS * ASSUMED_SD**2 + float(np.sum(fitted.residuals**2))
    return float(np.sqrt(squares / freedom)), freedom


def _spread(job: Array) -> NDArray[np.intp]:
    """Return the rows that are kept: of each job at most ``MOST_ROWS``, evenly over its rows."""
    kept = []
    for one in np.unique(job):
        places = np.flatnonzero(job == one)
        if len(places) > MOST_ROWS:
            places = places[np.linspace(0, len(places) - 1, MOST_ROWS).round().astype(np.intp)]
        kept.append(places)
    return np.sort(np.concatenate(kept)) if kept else np.zeros(0, dtype=np.intp)
