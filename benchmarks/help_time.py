"""Seconds that ``convoy --help`` takes: the median of five. It should stay under 0.3.

.venv/bin/python benchmarks/help_time.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path


def seconds() -> float:
    """Return what one call took."""
    began = time.perf_counter()
    subprocess.run([Path(sys.executable).with_name("convoy"), "--help"], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


if __name__ == "__main__":
    print(f"convoy --help: {statistics.median(seconds() for _ in range(5)):.3f} s, the median of 5")
