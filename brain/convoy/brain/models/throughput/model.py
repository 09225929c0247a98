"""How fast a job would run at configurations at which it hasn't run: samples/s with intervals.

The physics is in ``physics``, what history teaches in ``prior`` and ``learning``, inference in ``posterior``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from convoy.brain.models.state import State
from convoy.brain.models.throughput.explain import Asked, Explanation, explain, nothing
from convoy.brain.models.throughput.frame import (
    DEFAULT_WINDOW_SECONDS,
    WINDOW_NOISE,
    Observations,
    configurations_of,
    group_of,
    labels_of,
    names_of,
    observations_of,
    rows_by_job,
)
from convoy.brain.models.throughput.held_out import corrected, width
from convoy.brain.models.throughput.history import JobRows, jobs_of
from convoy.brain.models.throughput.kinds import FORMS, kind_of, kinds_of, most_alike
from convoy.brain.models.throughput.learning import learn
from convoy.brain.models.throughput.misfit import Misfit
from convoy.brain.models.throughput.physics import Array, Configurations, Form
from convoy.brain.models.throughput.posterior import Draws, Posterior, infer
from convoy.brain.models.throughput.prior import Prior
from convoy.brain.models.throughput.saved import restored, saved
from convoy.brain.models.throughput.summary import LARGEST, summary
from convoy.core.api.errors import InvalidInput

SCOPE_DRAWS = 1000
CACHED_PRIORS = 64
CACHED_POSTERIORS = 8
"""A plan asks of one job several times, with the same observations."""
MANY_BATCHES = 16
"""Configurations beyond which a job's typical batch counts as known no better."""
LEARNED_CONFIGURATIONS = 48
"""Configurations of one job that a prior is learned from: more add little to eight coefficients."""
MOST_JOINT = 5000
MOST_APART = 100
"""Jobs of a history up to which one that is asked about is left out exactly: all is learned anew without it. Of more,
one job hardly moves what all have in common, and is only left out of the scopes."""
COLUMNS = ("mean", "lower", "upper", "latent_sd", "reason")


def _unit(configurations: Configurations) -> float:
    """Return the job's unit of batches: the geometric mean of what is alike among its configurations."""
    return float(np.exp(np.mean(np.log(configurations.unit))))


@dataclass(frozen=True)
class _Asked:
    """What is asked of one job."""

    rows: NDArray[np.intp]
    """Places of its questions in the query."""
    usable: NDArray[np.intp]
    """Those of them that are configurations."""
    why: NDArray[np.object_]
    """Of each row, what makes it unusable; "" where nothing does."""
    configurations: Configurations
    """Of the usable rows, batches in units of ``batch``."""
    batch: float
    posterior: Posterior | None
    """None: neither history nor job showed anything."""
    prior: Prior
    believed: Callable[[Observations], Posterior | None]
    """What is believed of the job given some of its observations, batches in units of ``batch``."""


@dataclass(frozen=True)
class _Source:
    """Where a prior is from: a kind's jobs (of none: the default), one of them perhaps left out, for a form."""

    kind: str
    without: str
    active: tuple[int, ...]


class ThroughputModel:
    """Speed of training jobs, with all-reduce or parameter servers, from a history and a job's own observations.

    Conventions are scikit-learn's: ``fit`` learns from a history and returns the model; attributes learned end in
    ``_``. Frames have one row a measurement, or a question; columns, absent or NaN where unknown:

    - ``job``: rows of equal ``job`` belong together; absent: one job. A question without one is of the only job
      observed; an observation without one is of no job that a question names.
    - ``template``, ``model``, ``cluster``, ``accelerator``, ``node_type``: labels, by which jobs may be alike.
    - ``strategy`` ("allreduce" | "ps"; absent: servers where ``ps`` says so), ``mode`` of servers ("sync" | "async").
    - ``workers`` (processes, required), ``nodes``, ``accelerators_per_worker``, ``ps`` (required with servers),
      ``batch_size`` (per worker and micro-step; unknown: whether workers share one is inferred, asynchronous ones
      have their own), ``accumulation_steps``.
    - ``worker_cpu``, ``ps_cpu``: allotted cores (unknown: enough); ``cluster_cpu``: cores that the job can have.
    - ``throughput`` (samples/s), ``throughput_sd`` (its standard error), ``observed_at`` (UTC, or seconds since 1970;
      older rows count less), ``window_seconds``, ``status`` ("ok" | "failed" | "oom" | "warming"; only "ok" is
      learned from).
    - ``worker_cpu_used``, ``ps_cpu_used_max`` (``ps_cpu_used`` of a single server), cores; ``compute_seconds`` of a
      step: where known, evidence of what a step consists of.

    Undefined, that is NaN in all numbers with a reason, only where
      - the question isn't a configuration: ``InvalidConfiguration`` (no workers, servers but none of them, a batch of
        zero, infinite...);
      - strategy or mode is another than those: ``StrategyNotModelled``;
      - neither a history of such jobs (all-reduce, or servers) nor the job showed a usable measurement:
        ``NothingKnown``.
    All else is finite, with 0 < lower <= mean <= upper.

    Reasons of defined rows: ``Observed`` (this configuration ran, with the cores that are asked), ``Interpolated``
    (within the workers, nodes, servers and batches seen), ``Extrapolated`` (beyond them, with history),
    ``HistoryOnly`` (the job wasn't observed), ``NoHistory`` (beyond what the job showed, and no history says how such
    jobs scale: a physical default with a wide interval).
    """

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.priors_: dict[str, Prior] = {}
        self._recast: OrderedDict[_Source, Prior] = OrderedDict()
        self._draws: OrderedDict[tuple[object, ...], tuple[list[Draws], Misfit]] = OrderedDict()
        self._posteriors: OrderedDict[tuple[object, ...], Posterior] = OrderedDict()

    def fit(self, history: pd.DataFrame) -> ThroughputModel:
        """Learn from measurements of past jobs; an empty history leaves the physical default.

        Of a history of more than some hundred jobs the jobs are fitted together where torch is installed (one by one,
        to the same end but slower, where it isn't), and what a comparison of jobs teaches is learned from some.
        """
        jobs: dict[str, list[JobRows]] = {}
        for job in jobs_of(history, LEARNED_CONFIGURATIONS):
            kind = kind_of(job.observations.configurations)
            own = job.observations.relative(_unit(job.observations.configurations))
            jobs.setdefault(kind, []).append(replace(job, observations=own))
        self.priors_ = {
            kind: _learned(sorted(found, key=lambda job: job.name), FORMS[kind]) for kind, found in jobs.items()
        }
        self._recast.clear()
        self._draws.clear()
        self._posteriors.clear()
        return self

    def state(self) -> State:
        """Return what was learned, for a model file."""
        return saved(self.priors_, self.seed)

    @classmethod
    def restored(cls, state: State) -> ThroughputModel:
        """Return the model that ``state`` was taken of."""
        priors, seed = restored(state)
        model = cls(seed)
        model.priors_ = priors
        return model

    @property
    def history_jobs(self) -> int:
        """Jobs whose evidence formed the priors."""
        return sum(len(prior.jobs) for prior in self.priors_.values())

    def predict(self, observed: pd.DataFrame, query: pd.DataFrame, level: float = 0.9) -> pd.DataFrame:
        """Predict the mean speed over each question's ``window_seconds`` (300 where absent).

        Args:
            observed: measurements of the jobs asked about; may be empty. Rows of the history of the same jobs are
                ignored: all is learned anew without each, up to 100 jobs; of more, one job hardly moves what all
                have in common, and its rows are only left out of what is believed of jobs like it.
            query: one row a question.
            level: probability of the interval, in (0, 1).

        Returns:
            A frame with the query's index and columns ``mean`` (exp of the mean log speed), ``lower``, ``upper``
            (samples/s), ``latent_sd`` (of log speed, without the noise of measuring it) and ``reason``.

        Raises:
            ValueError: ``level`` isn't within (0, 1).
        """
        if not 0.0 < level < 1.0:
            raise ValueError(f"level is {level}: expected a probability between 0 and 1, such as 0.9")
        numbers = np.full((len(query), 4), np.nan)
        reasons: NDArray[np.object_] = np.full(len(query), "", dtype=object)
        for asked in self._asked(observed, query):
            reasons[asked.rows] = asked.why
            if asked.posterior is None:
                reasons[asked.usable] = "NothingKnown"
            elif len(asked.usable):
                noise = _noise(asked, query)
                numbers[asked.usable] = _numbers(asked, asked.posterior, noise, level)
                reasons[asked.usable] = self._reasons(
                    asked.prior, asked.posterior.seen.observations, asked.configurations
                )
        frame = pd.DataFrame(numbers, index=query.index, columns=list(COLUMNS[:4]))
        frame["reason"] = pd.Series(reasons, index=query.index, dtype=object)
        return frame

    def sample(self, observed: pd.DataFrame, query: pd.DataFrame, draws: int, seed: int) -> Array:
        """Return joint draws (draws, rows of ``query``) of the latent speeds in samples/s; NaN where undefined.

        Raises:
            InvalidInput: more than 5,000 rows of one job are asked about: memory grows with their square.
        """
        result = np.full((draws, len(query)), np.nan)
        generator = np.random.default_rng(seed)  # one for all: what isn't known of one job tells nothing of another
        for asked in self._asked(observed, query):
            if asked.posterior is not None and len(asked.usable):
                if len(asked.usable) > MOST_JOINT:
                    raise InvalidInput(
                        f"query has {len(asked.usable)} configurations of one job: expected at most {MOST_JOINT}, "
                        "since joint draws take memory with their square; ask for fewer, or for predictions"
                    )
                values = asked.posterior.joint(asked.configurations, draws, generator) + np.log(asked.batch)
                result[:, asked.usable] = np.exp(np.clip(values, -LARGEST, LARGEST))
        return result

    def explain(
        self, observed: pd.DataFrame, query: pd.DataFrame, chosen: int | None = None, level: float = 0.9
    ) -> Explanation:
        """Explain the prediction at one configuration of a job, among others that were weighed.

        Args:
            observed: as ``predict``'s.
            query: configurations of one job, as ``predict``'s.
            chosen: the row, counted from 0, that is explained; None: the one that is predicted to be the fastest.
            level: probability of the intervals of speed, in (0, 1).

        Raises:
            InvalidInput: the query has no rows, or of several jobs, or no row ``chosen``.
        """
        answers = self._asked(observed, query)
        if len(answers) != 1 or not -1 < (chosen or 0) < len(query):
            raise InvalidInput(
                f"{len(query)} rows of {len(answers)} jobs, and row {chosen} of them is to be explained: "
                "expected one or more rows of one job, and one of them"
            )
        asked = answers[0]
        place = 0 if chosen is None else chosen
        if asked.why[place] and (chosen is not None or not len(asked.usable)):
            return nothing(str(asked.why[place]))
        if asked.posterior is None:
            return nothing("NothingKnown")
        noise = _noise(asked, query)
        numbers = _numbers(asked, asked.posterior, noise, level)
        place = int(np.argmax(numbers[:, 0]) if chosen is None else np.searchsorted(asked.usable, chosen))
        observations = asked.posterior.seen.observations
        return explain(
            Asked(
                posterior=asked.posterior,
                configurations=asked.configurations,
                batch=asked.batch,
                numbers=numbers,
                basis=self._reasons(asked.prior, observations, asked.configurations),
                chosen=place,
                noise=noise,
                history_jobs=len(asked.prior.jobs),
                without=lambda kept: asked.believed(observations.take(kept)),
            ),
            self.seed,
        )

    def _asked(self, observed: pd.DataFrame, query: pd.DataFrame) -> list[_Asked]:
        seen = dict(_by_job(observed))
        one = next(iter(seen)) if len(seen) == 1 else None
        answers = []
        for name, rows in _by_job(query, default=one):
            own = seen.get(name, observed.iloc[:0])
            places = np.asarray(rows["__row__"], dtype=np.intp)
            configurations, why = configurations_of(rows)
            usable = np.flatnonzero(why == "")
            configurations = configurations.take(usable)
            observations = observations_of(own)
            sizes = observations.configurations if len(observations) else configurations
            batch = _unit(sizes) if len(sizes) else 1.0
            labels = {**labels_of(own), **labels_of(rows)}
            source, prior = self._prior_for(name, observations.configurations, configurations)
            observations = replace(observations.relative(batch), group=group_of(labels))
            believed = partial(self._posterior, name, labels, batches=len(sizes), source=source, prior=prior)
            relative = configurations.relative(batch)
            answers.append(
                _Asked(places, places[usable], why, relative, batch, believed(observations), prior, believed)
            )
        return answers

    def _prior_for(self, name: str, observed: Configurations, asked: Configurations) -> tuple[_Source, Prior]:
        """Return the prior of a job: its kind's; where no such job was seen, that of the kind most like it."""
        kinds = [kind for one in (observed, asked) for kind in kinds_of(one)] or ["allreduce"]
        learned = [kind for kind in most_alike(kinds[0]) if kind in self.priors_]
        active = {index for kind in kinds for index in FORMS[kind].active}
        form = FORMS[kinds[0]] if active == set(FORMS[kinds[0]].active) else Form(tuple(sorted(active)))
        for kind in learned:
            source = _Source(kind, name if self._is_evidence(kind, name) else "", form.active)
            prior = self._prior_of(source, form)
            if prior.jobs:
                return source, prior
        source = _Source("", "", form.active)
        return source, self._prior_of(source, form)

    def _is_evidence(self, kind: str, name: str) -> bool:
        return any(job.name == name for job in self.priors_[kind].evidence)

    def _prior_of(self, source: _Source, form: Form) -> Prior:
        if source not in self._recast:
            prior = self.priors_.get(source.kind, Prior())
            if source.without:
                prior = _learned([job for job in prior.evidence if job.name != source.without], prior.form)
            self._recast[source] = prior.recast(form)
            if len(self._recast) > CACHED_PRIORS:
                self._recast.popitem(last=False)
        return self._recast[source]

    def _posterior(
        self,
        name: str,
        labels: dict[str, str],
        observations: Observations,
        batches: int,
        source: _Source,
        prior: Prior,
    ) -> Posterior | None:
        draws, misfit = self._known(name, labels, min(batches, MANY_BATCHES), source, prior)
        if not len(observations) and len(draws) == 1:
            return None
        key = (name, tuple(sorted(labels.items())), batches, source, observations.content)
        if key not in self._posteriors:
            generator = np.random.default_rng([self.seed, 1])  # the same question has the same answer
            self._posteriors[key] = infer(observations, draws, misfit, generator)
            if len(self._posteriors) > CACHED_POSTERIORS:
                self._posteriors.popitem(last=False)
        return self._posteriors[key]

    def _known(
        self, name: str, labels: dict[str, str], batches: int, source: _Source, prior: Prior
    ) -> tuple[list[Draws], Misfit]:
        """Return draws of the scopes that apply to a job, and the misfit, from other jobs than itself."""
        known = any(job.name == name for job in prior.jobs)
        key = (source, name if known else None, tuple(sorted(labels.items())), batches)
        if key in self._draws:
            self._draws.move_to_end(key)
            return self._draws[key]
        generator = np.random.default_rng(self.seed)
        scopes = prior.scopes(labels, without=(name,), batches=batches)
        draws = [Draws.of(scope, SCOPE_DRAWS, generator) for scope in scopes]
        self._draws[key] = draws, replace(prior.misfit, shared=prior.misfit.shared.without({name}))
        if len(self._draws) > CACHED_PRIORS:
            self._draws.popitem(last=False)
        return self._draws[key]

    def _reasons(self, prior: Prior, observations: Observations, asked: Configurations) -> NDArray[np.object_]:
        if not len(observations):
            return np.full(len(asked), "HistoryOnly", dtype=object)
        beyond = "Extrapolated" if prior.jobs else "NoHistory"
        seen, wanted = observations.configurations.features, asked.features
        inside = np.all((wanted >= seen.min(axis=0) - 1e-9) & (wanted <= seen.max(axis=0) + 1e-9), axis=1)
        ran = asked.same(observations.configurations).any(axis=1)
        return np.where(ran, "Observed", np.where(inside, "Interpolated", beyond)).astype(object)


def _learned(jobs: list[JobRows], form: Form) -> Prior:
    prior = corrected(*learn(jobs, form))
    return replace(prior, evidence=tuple(jobs)) if len(jobs) <= MOST_APART else prior


def _by_job(frame: pd.DataFrame, default: str | None = None) -> list[tuple[str, pd.DataFrame]]:
    """Return the rows of each job, a column ``__row__`` with their places added; rows without a job are one job's."""
    if not len(frame):
        return []
    numbered = frame.assign(__row__=np.arange(len(frame)))
    names, places = rows_by_job(names_of(frame, default or ""))
    if len(names) == 1:
        return [(names[0], numbered)]
    return [(name, numbered.iloc[rows]) for name, rows in zip(names, places, strict=True)]


def _noise(asked: _Asked, query: pd.DataFrame) -> Array:
    """Return the variance of measuring log speed at what is asked of one job, (usable rows,)."""
    return np.asarray(asked.prior.misfit.errors.session**2 + _window_variance(query.iloc[asked.usable]))


def _numbers(asked: _Asked, posterior: Posterior, noise: Array, level: float) -> Array:
    """Return mean, lower, upper and latent sd at what is asked of one job, (usable rows, 4)."""
    wider = width(asked.prior.widths, len(posterior.seen.observations))
    return summary(posterior.latent(asked.configurations), np.log(asked.batch), noise, level, wider)


def _window_variance(rows: pd.DataFrame) -> Array:
    if "window_seconds" in rows.columns:
        window = pd.to_numeric(rows["window_seconds"], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        window = np.full(len(rows), np.nan)
    window = np.where(np.isfinite(window) & (window > 0), window, DEFAULT_WINDOW_SECONDS)
    return np.minimum(WINDOW_NOISE**2 * 10.0 / window, 0.09)
