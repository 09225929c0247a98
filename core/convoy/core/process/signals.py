"""A clean stop: SIGTERM and SIGINT ask once; a second one ends the process as usual."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from types import FrameType

from convoy.core.process.parent import at_parents_end


def stop_event() -> threading.Event:
    """Return an event that the first SIGTERM or SIGINT sets. Call from the main thread."""
    event = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        event.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    return event


def async_stop_event() -> asyncio.Event:
    """Return an asyncio event that the first SIGTERM or SIGINT sets. Call inside the running loop."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()

    def on_signal(number: int) -> None:
        event.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    return event


def die_with_parent(number: int = signal.SIGKILL, *, parent: int | None = None) -> None:
    """Have the kernel send this process a signal when the thread that started it ends (Linux).

    Call first thing in a child. If the parent is gone already, end at once; ``parent`` is its pid where the child
    was told it, which also notices a parent that went before this call.
    """
    expected = os.getppid() if parent is None else parent
    at_parents_end(number)
    if os.getppid() != expected:
        os.kill(os.getpid(), number)
