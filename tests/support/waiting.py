"""Waits of tests: they end, and say what was missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(condition: Callable[[], T], what: str, *, timeout: float = 10.0, every: float = 0.02) -> T:
    """Return the first true answer of ``condition``; after ``timeout`` fail the test, naming what was awaited."""
    end = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= end:
            raise AssertionError(f"waited {timeout:g} s for {what}; last answer: {answer!r}")
        time.sleep(every)
