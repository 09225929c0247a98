"""From the store to pandas: the frames that models and notebooks read. ``docs/frames.md`` lists their columns."""

from __future__ import annotations

from convoy.brain.features.observations import ENDED, history, is_over, observed

__all__ = ["ENDED", "history", "is_over", "observed"]
