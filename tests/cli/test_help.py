"""``convoy --help`` touches nothing heavy, and every command's help teaches."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.command import convoy

COMMANDS = [
    ["demo"],
    ["submit"],
    ["jobs"],
    ["explain"],
    ["delete"],
    ["operator"],
    ["master"],
    ["brain", "serve"],
    ["brain", "recommend"],
    ["brain", "migrate"],
    ["brain", "import"],
    ["brain", "export"],
    ["brain", "fit"],
    ["brain", "models", "list"],
    ["brain", "models", "show"],
    ["brain", "models", "card"],
    ["brain", "models", "promote"],
    ["brain", "models", "refuse"],
    ["brain", "models", "rollback"],
    ["brain", "models", "verify"],
]
HEAVY = ("torch", "pandas", "grpc", "numpy", "sqlalchemy", "pydantic", "matplotlib", "scipy", "psutil", "pyarrow")


def test_help_touches_nothing_heavy() -> None:
    code = (
        "import sys\nfrom convoy.cli import main\nsys.argv[1:] = ['--help']\n"
        "try:\n    main.main()\nexcept SystemExit:\n    pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"
    assert "submit" in done.stdout


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_commands_help_says_what_it_does_how_and_how_it_ends(command: list[str]) -> None:
    shown = convoy(*command, "--help")
    assert shown.status == 0
    assert f"Usage: convoy {' '.join(command)}" in shown.out
    assert "Exit status:" in shown.out
    assert "Example" in shown.out


def test_version() -> None:
    shown = convoy("--version")
    assert shown.status == 0
    assert shown.out.startswith("convoy 0.")


def test_an_unknown_command_is_refused_by_name() -> None:
    shown = convoy("sumbit")
    assert shown.status == 2
    assert "sumbit" in shown.err
