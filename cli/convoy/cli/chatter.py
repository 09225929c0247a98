"""What compiled libraries print by themselves: kept off stdout, where a command's answer stands."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def chatter_to_stderr() -> Iterator[None]:
    """Send what is written to file descriptor 1 to stderr: HiGHS prints a remark there that no option silences."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # there is no stdout
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)  # or the library's buffer is written once stdout is back
        os.dup2(kept, 1)
        os.close(kept)
