"""The stages of a run, a file each: what is done in what order.

Each takes the work and returns its result. It may be broken off anywhere and done again, by another process, and
comes to the same: what it writes on its way it writes once.
"""

from __future__ import annotations

from collections.abc import Callable

from convoy.brain.batch.stages.applying import apply
from convoy.brain.batch.stages.features import features
from convoy.brain.batch.stages.fitting import fit
from convoy.brain.batch.stages.outcomes import note_outcomes
from convoy.brain.batch.stages.planning import plan
from convoy.brain.batch.stages.promotion import promote
from convoy.brain.batch.stages.sums import roll_up
from convoy.brain.batch.work import Result, Work

Stage = Callable[[Work], Result]

STAGES: tuple[tuple[str, Stage], ...] = (
    ("rollup", roll_up),
    ("features", features),
    ("fit", fit),
    ("promote", promote),
    ("feedback", note_outcomes),
    ("plan", plan),
    ("apply", apply),
)
"""Their names stand in ``optimization_run.stage``."""
