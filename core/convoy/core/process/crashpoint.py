"""Named points at which a test can have a process die as if by SIGKILL.

``CONVOY_CRASH_AT=name`` kills the process at the first passage, ``name:3`` at the third. Names are dotted:
component, what, where, such as ``master.state.before-save``.
"""

from __future__ import annotations

import os
import signal
from collections import Counter

_passages: Counter[str] = Counter()


def crash_point(name: str) -> None:
    """Die here if the environment says so."""
    wanted = os.environ.get("CONVOY_CRASH_AT")
    if wanted is None:
        return
    target, _, nth = wanted.partition(":")
    if target != name:
        return
    _passages[name] += 1
    if _passages[name] == int(nth or "1"):
        os.kill(os.getpid(), signal.SIGKILL)
