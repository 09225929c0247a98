"""What history says of a program that it doesn't know: models of all other programs."""

from __future__ import annotations

import numpy as np
import pandas as pd

from convoy.brain.models import ThroughputModel
from convoy.brain.models.throughput.frame import canonical_model
from convoy.brain.simulate.policies.convoy.kinds import Ratios


class Others:
    """Of each program the history without its own rows, by whatever name they go.

    Each is learned when it is first asked for, and kept: several runs may share one.
    """

    def __init__(self, history: pd.DataFrame | None) -> None:
        self._history = pd.DataFrame() if history is None else history
        names = history["model"] if history is not None and "model" in history.columns else ()
        self._programs = np.array([canonical_model(str(name)) for name in names], dtype=object)
        self._own: dict[str, str] = {}
        self._learned: dict[str, tuple[ThroughputModel, Ratios]] = {}

    def than(self, application: str) -> tuple[ThroughputModel, Ratios]:
        """Return speeds, and how kinds of accelerators compare, as learned from the other programs."""
        if application not in self._own:
            name = canonical_model(application)
            self._own[application] = name if (self._programs == name).any() else ""
        own = self._own[application]
        if own not in self._learned:
            rest = self._history[self._programs != own] if own else self._history
            self._learned[own] = ThroughputModel().fit(rest), Ratios(rest)
        return self._learned[own]
