"""Generates the stubs of core/convoy/core/api/v1/*.proto with the oldest protobuf that Convoy supports.

Stubs run with the protobuf that made them and with later ones, not with earlier ones; so the oldest makes them, in an
environment of its own under build/ (made on first use). ``--check`` compares instead of writing.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "core"
FOLDER = SOURCES / "convoy/core/api/v1"
TOOLS = ("grpcio-tools==1.62.3", "protobuf==4.25.8", "setuptools<81")
PYTHONS = ("3.11", "3.12")
"""For which the tools have wheels."""


def compiler() -> Path:
    """Return the Python that has the tools, installing them if need be."""
    key = hashlib.sha256(" ".join(TOOLS).encode()).hexdigest()[:8]
    home = ROOT / "build" / f"protoc-{key}"
    if not (home / "complete").exists():
        python = _python()
        sys.stdout.write(f"installing {', '.join(TOOLS)} into {home.relative_to(ROOT)}\n")
        shutil.rmtree(home, ignore_errors=True)
        subprocess.run([python, "-m", "venv", home], check=True)
        pip = [str(home / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--only-binary", ":all:", *TOOLS], check=True)
        (home / "complete").touch()
    return home / "bin/python"


def _python() -> str:
    if f"{sys.version_info.major}.{sys.version_info.minor}" in PYTHONS:
        return sys.executable
    found = next((path for version in PYTHONS if (path := shutil.which(f"python{version}"))), None)
    if found is None:
        sys.exit(f"the stubs' compiler has builds for Python {' and '.join(PYTHONS)} only, and neither is on PATH")
    return found


def generate(into: Path) -> dict[str, str]:
    """Return the stubs' text by file name; ``into`` is an empty folder."""
    protos = [str(path.relative_to(SOURCES)) for path in sorted(FOLDER.glob("*.proto"))]
    outputs = [f"--{kind}={into}" for kind in ("python_out", "pyi_out", "grpc_python_out")]
    command = [str(compiler()), "-m", "grpc_tools.protoc", f"-I{SOURCES}", *outputs, *protos]
    subprocess.run(command, cwd=SOURCES, check=True)
    return {path.name: path.read_text() for path in sorted(into.rglob("*_pb2*"))}


def main() -> int:
    """Write the stubs, or compare them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="fail if a committed stub isn't what would be generated")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        wanted = generate(Path(folder))
    there = {path.name: path.read_text() for path in FOLDER.glob("*_pb2*")}
    stale = sorted(name for name in wanted.keys() | there.keys() if wanted.get(name) != there.get(name))
    if check and stale:
        sys.exit(f"stale stubs: {', '.join(stale)}; run `make protos` and commit them")
    for name in stale:
        if name in wanted:
            (FOLDER / name).write_text(wanted[name])
        else:
            (FOLDER / name).unlink()
    sys.stdout.write(f"protos: {len(wanted)} stubs, {len(stale)} of them written anew\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
