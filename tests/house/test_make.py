"""What someone meets who has just cloned: help that teaches, and one line where something is missing."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=30)


def fake_python(folder: Path, body: str) -> str:
    path = folder / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_help_names_every_target_with_what_it_does() -> None:
    shown = make().stdout
    targets = re.findall(r"^([a-z-]+):.*## (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(targets) > 12
    for name, what in targets:
        assert re.search(rf"make {name}\s+{re.escape(what)}", shown)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ('[ "$1" = --version ] && echo "Python 3.9.2" && exit 0; exit 1', "Convoy needs Python 3.11 or newer"),
        ('case "$2" in *ensurepip*) exit 1;; esac; exit 0', "has no venv module: install it"),
    ],
    ids=["too old", "no venv"],
)
def test_a_python_that_will_not_do_is_refused_in_one_line(tmp_path: Path, body: str, says: str) -> None:
    ran = make("install", f"VENV={tmp_path}/venv", f"PYTHON={fake_python(tmp_path, body)}")
    assert ran.returncode == 2
    assert says in ran.stdout
    assert len(ran.stdout.splitlines()) <= 3  # make's own lines about folders included
    assert not (tmp_path / "venv").exists()


def test_every_step_of_the_whole_check_is_a_target() -> None:
    steps = re.findall(r"^step make ([a-z-]+)", (ROOT / ".ci/run").read_text(), re.MULTILINE)
    assert steps == ["install", "servers", "check", "test", "test-long", "wheel-check"]
    assert make("--dry-run", *steps).returncode == 0
