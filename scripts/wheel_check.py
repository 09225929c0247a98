"""Builds the wheel, installs it in an empty environment elsewhere, runs the quick demo, imports all of it.

The environment gets the ``demo`` extra, then ``kubernetes``, at the versions of constraints.txt, by pip and its
cache, in a temporary folder that is removed in the end. Nothing of the checkout is visible to what runs there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
SHIPPED = (
    "convoy/core/api/v1/master_pb2_grpc.py",
    "convoy/sql/versions/0001_first_schema.py",
    "convoy/brain/ingest/prometheus/queries.toml",
    "convoy/cli/examples/digits-allreduce.yaml",
    "convoy/cli/examples/history/digits.csv",
)
"""Files that importing doesn't find, or that the build would miss if a root were forgotten."""
IMPORT_ALL = """
import importlib
from pathlib import Path
import convoy
names = set()
for root in map(Path, convoy.__path__):
    for file in root.rglob("*.py"):
        parts = ("convoy", *file.relative_to(root).with_suffix("").parts)
        names.add(".".join(parts).removesuffix(".__init__"))
skipped = ("convoy.sql.env", "convoy.sql.versions.", "convoy.cli.examples.")  # run by Alembic, by jobs
names = sorted(name for name in names if not name.startswith(skipped))
assert len(names) > 50, names
for name in names:
    importlib.import_module(name)
print(f"{len(names)} modules were imported from {list(convoy.__path__)}")
"""


def say(text: str) -> None:
    """Print what is done, and when."""
    sys.stdout.write(f"wheel-check {time.strftime('%H:%M:%S')}: {text}\n")
    sys.stdout.flush()


def run(*command: str | Path, cwd: Path, env: dict[str, str], seconds: float, quiet: bool = False) -> None:
    """Run a command; end this one if it fails or takes longer."""
    say(" ".join(map(str, command))[:160])
    output = subprocess.DEVNULL if quiet else None
    try:
        done = subprocess.run([*map(str, command)], cwd=cwd, env=env, timeout=seconds, stdout=output)
    except subprocess.TimeoutExpired:
        sys.exit(f"wheel-check: not done within {seconds:g} s: {command[0]}")
    if done.returncode != 0:
        sys.exit(f"wheel-check: exit status {done.returncode}: {' '.join(map(str, command))[:160]}")


def build(into: Path) -> Path:
    """Build the wheel from the checkout and check what is in it."""
    run(sys.executable, "-m", "build", "--wheel", "--outdir", into, ROOT, cwd=into, env=dict(os.environ), seconds=300)
    (wheel,) = into.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    missing = [name for name in SHIPPED if name not in names]
    if missing:
        sys.exit(f"wheel-check: {wheel.name} lacks {', '.join(missing)}")
    say(f"{wheel.name}: {len(names)} files, {wheel.stat().st_size / 1e6:.1f} MB")
    return wheel


def left_behind(home: Path) -> list[str]:
    """Return the processes that still have ``home`` in their environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if any(str(home) in value for value in process.environ().values()):
                found.append(f"{process.pid} {' '.join(process.cmdline())[:120]}")
        except psutil.Error:
            continue
    return found


def main() -> int:
    """Run the check."""
    with tempfile.TemporaryDirectory(prefix="convoy-wheel-") as folder:
        place = Path(folder)
        wheel = build(place)
        binaries = place / "venv" / "bin"
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("CONVOY_", "PYTHON"))}
        run(sys.executable, "-m", "venv", place / "venv", cwd=place, env=outside, seconds=120)
        install = [str(binaries / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        constraints = ROOT / "constraints.txt"
        run(*install, "--constraint", constraints, f"{wheel}[demo]", cwd=place, env=outside, seconds=1500)
        home = place / "home"
        work = place / "elsewhere"
        home.mkdir()
        work.mkdir()
        user = {name: value for name, value in outside.items() if not name.startswith("XDG_")} | {"HOME": str(home)}
        for program in ("convoy", "convoy-run", "dlrover-run"):
            run(binaries / program, "--help", cwd=work, env=user, seconds=60, quiet=True)
        run(binaries / "convoy", "demo", "--quick", cwd=work, env=user, seconds=400)
        if left := left_behind(home):
            sys.exit("wheel-check: the demo left processes behind:\n" + "\n".join(left))
        run(*install, "--constraint", constraints, f"{wheel}[kubernetes]", cwd=place, env=outside, seconds=600)
        run(binaries / "python", "-c", IMPORT_ALL, cwd=work, env=user, seconds=300)
    say("1 wheel passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
