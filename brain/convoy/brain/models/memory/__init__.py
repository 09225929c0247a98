"""Memory limits that meet a rate of out-of-memory kills, and the rules that they are compared with."""

from convoy.brain.models.memory.baselines import (
    BASELINES,
    AutopilotLike,
    DlroverRule,
    KrrRule,
    MemoryRule,
    TunedMargin,
    VpaRule,
)
from convoy.brain.models.memory.model import MemoryModel

__all__ = [
    "BASELINES",
    "AutopilotLike",
    "DlroverRule",
    "KrrRule",
    "MemoryModel",
    "MemoryRule",
    "TunedMargin",
    "VpaRule",
]
