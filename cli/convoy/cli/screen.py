"""What commands print on: text of jobs is shown as it is, never read as markup, and nothing is cut."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TextIO

from rich.console import Console

WIDE = 4096  # columns: no line of ours is longer; the terminal, or what reads the pipe, folds what it must


def screen(file: TextIO | None = None, *, wide: bool = False) -> Console:
    """Return a console on ``file``, stdout if None, as wide as its terminal; as wide as need be where it is none.

    Args:
        wide: as wide as need be on a terminal too, for tables whose rows are to stay lines.
    """
    out = file if file is not None else sys.stdout
    width = None if out.isatty() and not wide else WIDE
    return Console(file=out, width=width, markup=False, emoji=False, highlight=False)


def counted(number: int, noun: str) -> str:
    """Return a number of things in words: ``1 node``, ``2 nodes``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


class Working:
    """A line on the terminal that stderr is: what is being done, and for how long; nothing where it is none.

    What is printed to stdout meanwhile goes there, as it would without the line.
    """

    def __init__(self, text: str) -> None:
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # most commands need none

        columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
        console = screen(sys.stderr)
        self._seen = console.is_terminal  # stopped elsewhere, it would print an empty line
        self._line = Progress(*columns, console=console, transient=True, redirect_stdout=False)
        self._task = self._line.add_task(text, total=None)

    def __enter__(self) -> Working:
        if self._seen:
            self._line.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._seen:
            self._line.stop()

    def __call__(self, text: str) -> None:
        """Show something else."""
        self._line.update(self._task, description=text)
