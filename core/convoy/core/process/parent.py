"""What becomes of a process when its parent ends (Linux). Light: shims and fork servers import it."""

from __future__ import annotations

import ctypes

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


def at_parents_end(number: int) -> None:
    """Have the kernel send this process a signal when the thread that started it ends; 0: none any more.

    A parent that ended before is not noticed: compare ``os.getppid()`` with its pid afterwards.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
