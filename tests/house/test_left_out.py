"""A run ends by naming what it left out and how to bring it; a strict one fails over a skip without excuse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SUITE = """
import pytest

def test_runs(): pass

@pytest.mark.long
def test_outage(): pass

@pytest.mark.skip(reason="no folder of data sets: CONVOY_DATA=DIR make test")
def test_data(): pass

@pytest.mark.gpu
@pytest.mark.skip(reason="no NVIDIA GPU")
def test_gpu(): pass
"""


def run(tmp_path: Path, *flags: str, suite: str = SUITE, strict: bool = False) -> subprocess.CompletedProcess[str]:
    (tmp_path / "test_suite.py").write_text(suite)
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["support.left_out"]\n')
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\nmarkers =\n  long: a\n  gpu: b\n")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not long",
        *flags,
        str(tmp_path),
    ]
    env = {name: value for name, value in os.environ.items() if name != "CONVOY_STRICT"}
    env |= {"CONVOY_STRICT": "1"} if strict else {}
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=45, env=env)


@pytest.mark.parametrize("flags", [("-p", "no:xdist"), ("-n", "2")], ids=["alone", "xdist"])
def test_what_was_left_out_is_named_with_the_command_that_brings_it(tmp_path: Path, flags: tuple[str, ...]) -> None:
    ran = run(tmp_path, *flags)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "left out: 1 long tests; brought by: make test-long" in ran.stdout
    assert "left out: 1 skipped: no folder of data sets: CONVOY_DATA=DIR make test" in ran.stdout
    assert "left out: 1 skipped: no NVIDIA GPU; brought by: make test, on a machine with an NVIDIA GPU" in ran.stdout


@pytest.mark.parametrize("flags", [("-p", "no:xdist"), ("-n", "2")], ids=["alone", "xdist"])
def test_a_strict_run_fails_over_a_skip_without_excuse(tmp_path: Path, flags: tuple[str, ...]) -> None:
    assert run(tmp_path, *flags, strict=True).returncode == 1
    only_gpu = SUITE.replace('@pytest.mark.skip(reason="no folder of data sets: CONVOY_DATA=DIR make test")\n', "")
    assert run(tmp_path, *flags, suite=only_gpu, strict=True).returncode == 0


def test_a_complete_run_says_so(tmp_path: Path) -> None:
    assert "left out: nothing" in run(tmp_path, "-p", "no:xdist", suite="def test_runs(): pass\n").stdout
