"""What jobs fit to their own measurements."""

from __future__ import annotations

import numpy as np
import pytest

from convoy.brain.simulate.adaptive.goodput import Goodput
from convoy.brain.simulate.adaptive.steps import StepModel, fit
from convoy.brain.simulate.policy import Measurement
from support.made_workloads import NOISE, seconds

TRUE = StepModel(0.05, 0.002, 0.08, 0.004, 0.02, 0.001, 1.6)


def measured(model: StepModel, places: list[tuple[int, int, int]]) -> list[Measurement]:
    rows = []
    for nodes, replicas, local in places:
        args = (np.array([float(one)]) for one in (nodes, replicas, local))
        step = float(model.step(*args)[0])
        sync = step - float(model.compute(np.array([float(local)]))[0])
        rows.append(Measurement("aws", nodes, replicas, local, step, sync))
    return rows


def test_a_model_of_its_own_form_is_found_again() -> None:
    seen = [(n, r, b) for n, r in [(1, 1), (1, 2), (1, 4), (2, 8), (4, 16)] for b in (8, 32, 128)]
    found = fit(measured(TRUE, seen))
    asked = [np.array(one, dtype=float) for one in ([1, 1, 3, 4], [3, 4, 12, 12], [64, 16, 64, 8])]
    assert found.step(*asked) == pytest.approx(TRUE.step(*asked), rel=0.03)


def test_what_was_never_seen_costs_nothing_yet() -> None:
    found = fit(measured(TRUE, [(1, 1, 32)]))
    one, many = (found.step(np.array([1.0]), np.array([r]), np.array([32.0]))[0] for r in (1.0, 4.0))
    assert many == pytest.approx(one)
    assert found.compute(np.array([32.0]))[0] == pytest.approx(TRUE.compute(np.array([32.0]))[0], rel=1e-3)


def test_the_best_batch_is_the_best_of_all() -> None:
    rows = [(1, r, b) for r in (1, 2, 4) for b in (4, 8, 16, 32)]
    steps = fit([Measurement("aws", n, r, b, *seconds(n, r, b)) for n, r, b in rows])
    goodput = Goodput(steps, (1.0, NOISE), 16.0, 256.0, 4, 32)
    best = goodput.batch(1, 4)

    def worth(local: int) -> float:
        gain = (NOISE + 1) / (NOISE / (4 * local / 16) + 1)
        return gain / seconds(1, 4, local)[0]

    assert best.accumulation == 1
    assert worth(best.local) >= 0.97 * max(worth(local) for local in range(4, 33))
