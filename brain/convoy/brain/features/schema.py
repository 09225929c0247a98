"""What a model file says of the frame that its model was fitted to, and of those that it may be asked with."""

from __future__ import annotations

from convoy.brain.features.layout import Layout
from convoy.brain.models.registry.facts import Schema


def schema_of(layout: Layout) -> Schema:
    """Return names and types of the columns of a kind of frame."""
    return Schema.of((column.name, column.kind) for column in layout.columns)
