"""The queries in force as a file of queries: what is printed can be kept, changed and given back."""

from __future__ import annotations

import json
from typing import Any

from convoy.brain.ingest.prometheus.durations import duration_of
from convoy.brain.ingest.prometheus.queries import COLUMNS, GROUPS, Queries, Query


def as_toml(queries: Queries, step: int) -> str:
    """Return the queries as TOML that ``load`` reads; a comment says what the placeholders stand for.

    Args:
        queries: in force.
        step: seconds between two rows.
    """
    window, fresh = duration_of(queries.window(step)), duration_of(queries.fresh())
    parts = [
        f"# A row each {duration_of(step)}: $window is {window}, $fresh is {fresh}.",
        f"scrape_interval = {_value(queries.scrape_interval)}\nsettle = {_value(queries.settle)}",
        _table("node_names", queries.node_names),
    ]
    for group in GROUPS:
        parts += [_table(f"{group}.{column}", getattr(queries, group).get(column)) for column in COLUMNS]
    return "\n\n".join(parts) + "\n"


def _table(name: str, query: Query | None) -> str:
    if query is None:
        return f"[{name}]\noff = true"
    lines = [f"{key} = {_value(value)}" for key, value in query.model_dump().items()]
    return "\n".join([f"[{name}]", *lines])


def _value(value: Any) -> str:
    if isinstance(value, str) and "\n" in value and "'''" not in value:
        return f"'''\n{value}'''"
    return json.dumps(value)  # of text, truth and lists of text TOML has JSON's form
