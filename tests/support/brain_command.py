"""``convoy brain ...`` in the test's own process: one of its own takes longer to start than most of them to run."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from convoy.cli.main import main


@dataclass(frozen=True)
class Said:
    """How a command ended."""

    status: int
    out: str
    err: str


class BrainCommand:
    """Runs ``convoy brain`` with the arguments given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> Said:
        """Run it to its end."""
        self._monkeypatch.setattr(sys, "argv", ["convoy", "brain", *map(str, arguments)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        said = self._capsys.readouterr()
        return Said(int(ended.value.code or 0), said.out, said.err)
