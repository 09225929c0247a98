"""Model files for tests: a model that is small, and the facts of one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Self

import numpy as np

from convoy.brain.models.registry import BackTest, Contest, Facts, JobScore, ModelFile, Schema
from convoy.brain.models.state import State
from convoy.brain.store.engine import open_engine
from convoy.brain.store.model_files import Registry

AT = datetime(2026, 1, 31, 12, 0, 0, 123456, tzinfo=UTC)
FACTS = Facts(
    name="throughput",
    code_version="0.1.0",
    schema=Schema.of([("job", "label"), ("workers", "count")]),
    created_at=AT,
    trained_from=AT - timedelta(days=30),
    trained_until=AT,
    rows=120,
    jobs=7,
    fitted_to="a" * 64,
    seconds=1.25,
)


class Line:
    """A model: a straight line."""

    def __init__(self, slope: float) -> None:
        self.slope = slope

    def state(self) -> State:
        """Return its content."""
        return State({"model": "line"}, {"slope": np.array(self.slope)})

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the model of that content."""
        return cls(float(state.tensors["slope"]))


def back_test(of: str, error: float, jobs: int = 8, covered: int = 9) -> BackTest:
    """Return a back-test with the same error for all jobs."""
    scores = tuple(JobScore(f"job-{place}", 10, error, covered, 0.5) for place in range(jobs))
    return BackTest(of, "three sizes of each job shown", 0.9, "rows", scores)


def contest(error: float, *, baseline: float = 0.5, champion: tuple[str, float] | None = None) -> Contest:
    """Return a candidate's back-test beside a baseline's and, by its file's digest, a champion's."""
    return Contest(
        back_test("candidate", error),
        back_test("no history", baseline),
        None if champion is None else back_test(*champion),
    )


def model_file(slope: float = 1.0, **facts: Any) -> ModelFile:
    """Return a file of a line; its facts changed as said."""
    return ModelFile(replace(FACTS, **facts), Line(slope).state())


def go_on(url: str, folder: str) -> None:
    """Register and promote a successor of the first champion of a registry, then candidates until old files go."""
    engine = open_engine(url)
    registry = Registry(engine, Path(folder), keep=1)
    first = registry.version("throughput", 1)
    version = registry.register(model_file(2.0, contest=contest(0.1, champion=(first.digest, 0.2))))
    registry.consider(version, AT + timedelta(days=2))
    for slope in (3.0, 4.0, 5.0):
        registry.register(model_file(slope))
    engine.dispose()
