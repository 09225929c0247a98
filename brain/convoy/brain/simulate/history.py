"""A file of history as the frame that models are fitted to, without any store."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from convoy.brain.features.columns import COLUMNS
from convoy.brain.features.observations import OBSERVATIONS
from convoy.brain.ingest.history import open_history
from convoy.brain.ingest.history.rows import Refusal


def read_history(path: Path) -> tuple[pd.DataFrame, list[Refusal]]:
    """Read observations of earlier jobs, in the format of ``convoy brain import``.

    Returns:
        The good rows, with the columns of ``convoy.brain.features.columns``, and what was refused.

    Raises:
        InvalidInput: the file can't be used at all.
    """
    with open_history(path) as file:
        read = list(file.rows())
    rows = [row for row in read if not isinstance(row, Refusal)]
    frame = OBSERVATIONS.typed(pd.DataFrame(rows, columns=[column.name for column in COLUMNS]))
    return frame, [row for row in read if isinstance(row, Refusal)]
