"""What a fitted model is, apart from its code: a JSON document and named tensors. Model files hold it (no pickle)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class State:
    """A fitted model's content; ``restored(model.state())`` predicts as ``model`` does, bit for bit."""

    document: dict[str, Any]
    """What isn't an array: JSON's types alone."""
    tensors: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    """Arrays of numbers by name; never of objects."""
