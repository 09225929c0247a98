"""Whether a learner beats the medians, target by target: judged on jobs that neither had seen.

Twice: with single jobs left out (their templates are known), and with whole templates left out.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from convoy.brain.models.startup.learner import Ridge
from convoy.brain.models.startup.medians import Medians
from convoy.brain.models.startup.table import TARGETS, Array, Jobs, answered, only

LEARNERS = {"additive": False, "rich": True}
"""Whether each is rich."""
ALONE = 30
"""Up to so many groups each is left out alone; of more, a tenth at a time."""
FOLDS = 10
SURE = 0.975
"""Probability by Student's t that a learner is better, for it to win."""
LEAST_GROUPS = 5
"""Fewer say nothing of a group that wasn't seen."""


def judged(history: Jobs, groups: NDArray[np.object_]) -> dict[str, str]:
    """Return for each target the learner that beats the medians; without those where none does.

    A learner wins if its mean absolute error of logarithms, over groups, is lower beyond doubt (``SURE``).

    Args:
        history: jobs with what turned out right.
        groups: of each job; jobs of one group are left out together.
    """
    if len(np.unique(groups.astype(str))) < LEAST_GROUPS:
        return {}
    names = ["medians", *LEARNERS]
    errors = {target: {name: np.full(len(history), np.nan) for name in names} for target in TARGETS}
    for left in folds(groups):
        seen, asked = history.take(~left), history.take(left)
        own = Medians(seen)
        base, _ = own.recommend(asked, own.strategy_of(asked))
        fitted = {learner: learned(seen, TARGETS, learner) for learner in LEARNERS}
        for target in TARGETS:
            truth = np.log(np.where(base[target] > 0, asked.targets[target], np.nan))
            answers = {"medians": base[target]}
            for learner in LEARNERS:
                ridge = fitted[learner].get(target)
                answers[learner] = base[target] if ridge is None else ridge.predict(asked)
            for name, value in answers.items():
                answer = answered(target, value)
                errors[target][name][left] = np.abs(np.log(np.where(answer > 0, answer, 1.0)) - truth)
    return {target: winner for target in TARGETS if (winner := _winner(errors[target], groups))}


def learned(history: Jobs, targets: Iterable[str], learner: str) -> dict[str, Ridge]:
    """Return the learners of some targets, each fitted to the jobs of which it is known."""
    allowed = only(TARGETS, history.labels["strategy"])
    alike: dict[bytes, list[str]] = {}
    for name in targets:
        alike.setdefault((np.isfinite(history.targets[name]) & allowed[name]).tobytes(), []).append(name)
    found: dict[str, Ridge] = {}
    for known, names in alike.items():
        jobs = history.take(np.frombuffer(known, dtype=np.bool_))
        found |= Ridge.fit(jobs, {name: jobs.targets[name] for name in names}, LEARNERS[learner])
    return found


def folds(groups: NDArray[np.object_]) -> Iterator[NDArray[np.bool_]]:
    """Yield masks of the jobs that are left out, groups whole; the same for the same names in any order."""
    names = sorted({str(group) for group in groups}, key=lambda name: (zlib.crc32(name.encode()), name))
    number = len(names) if len(names) <= ALONE else FOLDS
    place = {name: index % number for index, name in enumerate(names)}
    of_job = np.array([place[str(group)] for group in groups])
    for fold in range(number):
        yield of_job == fold


def _winner(errors: dict[str, Array], groups: NDArray[np.object_]) -> str:
    """Return the learner with the least error if that is less than the medians' beyond doubt, else ""."""
    known = np.isfinite(errors["medians"])
    if not known.any():
        return ""
    names, place = np.unique(groups[known].astype(str), return_inverse=True)
    if len(names) < LEAST_GROUPS:
        return ""
    # The next job's group is as likely to be like one as like another, however many jobs each has had.
    of_group = {name: np.bincount(place, each[known]) / np.bincount(place) for name, each in errors.items()}
    best = min(LEARNERS, key=lambda name: float(of_group[name].mean()))
    gain = of_group["medians"] - of_group[best]
    doubt = float(student.ppf(SURE, len(gain) - 1) * gain.std(ddof=1) / np.sqrt(len(gain)))
    return best if float(gain.mean()) > doubt else ""
