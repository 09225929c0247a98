"""A store with a watched cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from support.api_server import identities, kubeconfig
from support.monitored import Told

__all__ = ["identities", "kubeconfig"]


@pytest.fixture
def told(engine: Engine) -> Told:
    return Told(engine)


@pytest.fixture
def writes(engine: Engine) -> Iterator[Callable[[], list[str]]]:
    """Return what says which tables were written since it was asked last."""
    seen: list[str] = []

    def note(_c: Any, _cursor: Any, statement: str, _p: Any, _context: Any, _many: bool) -> None:
        verb, *words = statement.split()
        if verb in ("INSERT", "UPDATE", "DELETE"):
            seen.append(words[1] if verb == "INSERT" else words[0])

    def since() -> list[str]:
        found = list(seen)
        seen.clear()
        return found

    sa.event.listen(engine, "before_cursor_execute", note)
    yield since
    sa.event.remove(engine, "before_cursor_execute", note)
