"""Work that is done as a whole even where whoever waits for it goes away: what is saved is also taken over."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_T = TypeVar("_T")
_under_way: set[asyncio.Task[Any]] = set()


async def undivided(work: Coroutine[Any, Any, _T]) -> _T:
    """Return what the work returns. A call that is cancelled leaves it running to its end."""
    task = asyncio.ensure_future(work)
    _under_way.add(task)
    task.add_done_callback(_under_way.discard)
    return await asyncio.shield(task)
