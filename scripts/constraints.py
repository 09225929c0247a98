"""Writes constraints.txt: the exact versions, in this environment, of all that ``convoy-train[all]`` leads to.

Run it in a fresh environment that was installed without constraints, to take newer versions.
"""

from __future__ import annotations

import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FILE = Path(__file__).parents[1] / "constraints.txt"
HEADER = """\
# Exact versions of everything that `pip install .[all]` leads to; written by scripts/constraints.py.
# Packages that only some platforms or Pythons need (CUDA's, for one) are held to these versions where pip wants
# them, and are not installed where it doesn't. torch's version also admits a build for CPUs (2.x.y+cpu).
"""


def closure(root: str, extras: frozenset[str]) -> dict[str, str]:
    """Return name -> version of what the distribution with these extras requires, as installed here."""
    found: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    queue = [(canonicalize_name(root), extra) for extra in ("", *extras)]
    while queue:
        name, extra = queue.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            package = distribution(name)
        except PackageNotFoundError:  # required by a marker for another platform only, or left out by its owner
            continue
        found[name] = package.version
        for text in package.requires or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                queue += [(canonicalize_name(requirement.name), one) for one in ("", *requirement.extras)]
    return found


def main() -> int:
    """Write the file."""
    versions = closure("convoy-train", frozenset({"all"}))
    del versions["convoy-train"]
    lines = [f"{name}=={version.split('+')[0]}" for name, version in sorted(versions.items())]
    FILE.write_text(HEADER + "\n".join(lines) + "\n")
    sys.stdout.write(f"{FILE.name}: {len(lines)} packages\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
