"""What a back-test found, job by job: errors, rows within the interval, its width.

Errors are relative: 0.1 is 10 %. Two back-tests can be compared where they are of the same rows, by the same
protocol.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm as normal
from scipy.stats import t as student

from convoy.core.api.errors import CorruptState, InvalidInput

DRAWS = 2000
LEVEL = 0.9
"""Of the intervals over jobs."""
SMALLEST_ERROR = 0.005
"""Added to errors before their ratio is taken: from half a per cent on, better is no better."""
LARGEST_ERROR = 1e6
"""Errors beyond it count as it: worse is no worse."""
_CHUNK = 4_000_000


@dataclass(frozen=True, slots=True)
class JobScore:
    """One job's result (of memory: one container's; of demand: one week's).

    Attributes:
        job: whose rows were predicted.
        rows: that were predicted.
        error: relative, over them, 0 or more; how it is averaged the protocol knows.
        covered: of them within the interval; None: the model gives none.
        width: mean logarithm of upper / lower; None: it gives no interval.
    """

    job: str
    rows: int
    error: float
    covered: int | None = None
    width: float | None = None


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its bootstrap interval over jobs (``LEVEL``)."""

    estimate: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class BackTest:
    """A model's predictions of rows that it hadn't seen, beside what was measured.

    Attributes:
        of: whose: ``candidate``, the name of a baseline, or the digest of a champion's file.
        protocol: how it was tested, in words; part of what makes two back-tests comparable.
        level: probability that the model's intervals claim.
        rows_digest: SHA-256 of the rows and of what was shown to the model of each job.
        scores: by job, each job once; kept in their order, so that the same scores give the same bootstrap.

    Raises:
        InvalidInput: a job twice, a number that can't be.
    """

    of: str
    protocol: str
    level: float
    rows_digest: str
    scores: tuple[JobScore, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "scores", tuple(sorted(self.scores, key=lambda score: score.job)))
        if not 0.0 < self.level < 1.0:
            raise _wrong(f"level is {self.level}: expected a probability between 0 and 1")
        if len({score.job for score in self.scores}) != len(self.scores):
            raise _wrong("a job stands in it twice")
        for score in self.scores:
            if not (math.isfinite(score.error) and score.error >= 0.0):
                raise _wrong(f"error of job {score.job!r} is {score.error}: expected a number of 0 or more")
            if score.rows < 1 or not 0 <= (score.covered or 0) <= score.rows:
                raise _wrong(f"job {score.job!r} has {score.covered} of {score.rows} rows within the interval")
            if score.width is not None and not (math.isfinite(score.width) and score.width >= 0.0):
                raise _wrong(f"width of job {score.job!r} is {score.width}: expected a number of 0 or more")

    @property
    def rows(self) -> int:
        """Return how many rows were predicted."""
        return sum(score.rows for score in self.scores)

    def comparable(self, other: BackTest) -> bool:
        """Return whether both are of the same rows of the same jobs, by the same protocol."""
        same = (self.protocol, self.level, self.rows_digest) == (other.protocol, other.level, other.rows_digest)
        return same and _rows(self) == _rows(other)

    def error(self, seed: int = 0) -> Interval:
        """Return the geometric mean over jobs of their errors (plus ``SMALLEST_ERROR``, which is taken off again)."""
        found = _bootstrap(_logs(self.scores), seed)
        return Interval(*(max(0.0, math.exp(value) - SMALLEST_ERROR) for value in found))

    def ratio(self, other: BackTest, seed: int = 0) -> Interval:
        """Return the geometric mean over jobs, paired, of this one's errors by the other's.

        Raises:
            InvalidInput: they aren't comparable.
        """
        if not self.comparable(other):
            raise _wrong(f"{self.of} and {other.of} were tested on other rows, or otherwise")
        theirs = {score.job: score for score in other.scores}
        differences = _logs(self.scores) - _logs(tuple(theirs[score.job] for score in self.scores))
        return Interval(*(math.exp(value) for value in _bootstrap(differences, seed)))

    def coverage(self, seed: int = 0) -> Interval | None:
        """Return the share of rows within the interval, its mean over jobs; None: there are no intervals."""
        shares = [score.covered / score.rows for score in self.scores if score.covered is not None]
        return Interval(*np.clip(_bootstrap(np.array(shares), seed), 0.0, 1.0).tolist()) if shares else None

    def width(self) -> float | None:
        """Return the geometric mean over jobs of upper / lower; None: there are no intervals."""
        widths = [score.width for score in self.scores if score.width is not None]
        return math.exp(min(sum(widths) / len(widths), 700.0)) if widths else None

    def document(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        return {**asdict(self), "scores": [list(asdict(score).values()) for score in self.scores]}

    @classmethod
    def read(cls, document: Any) -> BackTest:
        """Return what ``document`` gave.

        Raises:
            CorruptState: it didn't.
        """
        try:
            scores = tuple(_score(row) for row in document["scores"])
            texts = (str(document["of"]), str(document["protocol"]), str(document["rows_digest"]))
            return cls(texts[0], texts[1], float(document["level"]), texts[2], scores)
        except (InvalidInput, KeyError, TypeError, ValueError) as error:
            raise CorruptState(f"back-test: not readable: {error!r}", reason="ModelFileCorrupt") from None


@dataclass(frozen=True, slots=True)
class Contest:
    """A candidate's back-test, and those of its rivals on the same rows.

    Attributes:
        candidate: its own.
        baseline: of what would be used without any model.
        champion: of the champion at that time; ``champion.of`` is its file's digest.
    """

    candidate: BackTest
    baseline: BackTest | None = None
    champion: BackTest | None = None

    def document(self) -> dict[str, Any]:
        """Return it as JSON's types."""
        parts = {"candidate": self.candidate, "baseline": self.baseline, "champion": self.champion}
        return {name: part.document() for name, part in parts.items() if part is not None}

    @classmethod
    def read(cls, document: Any) -> Contest:
        """Return what ``document`` gave.

        Raises:
            CorruptState: it didn't.
        """
        if not isinstance(document, dict) or "candidate" not in document:
            raise CorruptState("back-test: the candidate's own is missing", reason="ModelFileCorrupt")
        parts = {
            name: BackTest.read(document[name]) for name in ("candidate", "baseline", "champion") if name in document
        }
        return cls(**parts)


def _score(row: Any) -> JobScore:
    job, rows, error, covered, width = row
    return JobScore(
        str(job),
        int(rows),
        float(error),
        None if covered is None else int(covered),
        None if width is None else float(width),
    )


def _rows(test: BackTest) -> dict[str, int]:
    return {score.job: score.rows for score in test.scores}


def _logs(scores: tuple[JobScore, ...]) -> NDArray[np.float64]:
    errors = np.array([score.error for score in scores], dtype=np.float64)
    return np.log(np.minimum(errors, LARGEST_ERROR) + SMALLEST_ERROR)


def _bootstrap(values: NDArray[np.float64], seed: int) -> tuple[float, float, float]:
    """Return the mean of the jobs' values with its percentile interval, jobs drawn with replacement.

    Of few jobs the percentiles are too narrow: they are spread by Student's quantile over the normal one and by
    sqrt(n / (n - 1)) (the expanded percentile interval; Hesterberg, The American Statistician 69(4), 2015).
    """
    count = len(values)
    if count < 2:
        only = float(values[0]) if count else math.nan
        return only, only, only
    generator = np.random.default_rng(seed)
    rows, means = max(1, _CHUNK // count), []
    for begin in range(0, DRAWS, rows):
        drawn = generator.integers(count, size=(min(rows, DRAWS - begin), count))
        means.append(values[drawn].mean(axis=1))
    lower, upper = np.quantile(np.concatenate(means), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    estimate, tail = float(values.mean()), (1 + LEVEL) / 2
    wider = float(student.ppf(tail, count - 1) / normal.ppf(tail)) * math.sqrt(count / (count - 1))
    return (
        estimate,
        estimate - wider * max(0.0, estimate - float(lower)),
        estimate + wider * max(0.0, float(upper) - estimate),
    )


def _wrong(what: str) -> InvalidInput:
    return InvalidInput(f"back-test: {what}", reason="BackTestInvalid")
