"""The command answers at once because it imports little: help must not touch what takes seconds."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "pandas", "numpy", "grpc", "sqlalchemy", "scipy", "matplotlib", "sklearn")
HELP = """
import sys
sys.argv = ["convoy", *sys.argv[1:]]
from convoy.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
print("LOADED", *sorted(name for name in sys.modules if "." not in name))
"""


@pytest.mark.parametrize(
    "arguments", [["--help"], ["submit", "--help"], ["brain", "--help"], ["--version"]], ids=" ".join
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", HELP, *arguments], capture_output=True, text=True, timeout=30, check=True
    )
    loaded = ran.stdout.split("LOADED")[1].split()
    assert "typer" in loaded
    assert not set(HEAVY) & set(loaded)
