"""A file of history may be larger than memory: what an import needs doesn't grow with it."""

import csv
import os
import subprocess
import sys

import pytest

from support.history_files import many, write_parquet

COMMAND = """
import atexit, re, sys
from pathlib import Path
from convoy.cli.main import main
# Not getrusage's peak, which a process inherits from the one that started it.
peak = lambda: re.search(r"VmHWM:\\s*(\\d+) kB", Path("/proc/self/status").read_text()).group(1)
atexit.register(lambda: print(peak(), file=sys.stderr))
main()
"""
NOISE = 48 * 2**20
"""What the counts of keys, a few thousand rows and the allocator's mood take. The rows themselves are a KiB each."""


@pytest.fixture
def file(home):
    """Return what writes a file of so many rows."""

    def write(count, ending):
        path = home / f"{count}{ending}"
        if ending == ".parquet":
            return write_parquet(path, many(count), group=2**20)  # as pyarrow and pandas do by themselves
        with path.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(many(1)[0])
            writer.writerows((f"job-{number // 10}", 1, 100.0 + number, "resnet50") for number in range(count))
        return path

    return write


def peak(*arguments, url):
    """Run the command to its good end and return its largest resident set in bytes."""
    process = subprocess.run(
        [sys.executable, "-c", COMMAND, "brain", *map(str, arguments)],
        env={**os.environ, "CONVOY_DATABASE_URL": url},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(process.stderr.split()[-1]) * 1024


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_rehearsal_of_ten_times_the_rows_needs_no_more_memory(home, file, ending):
    url = f"sqlite:///{home}/brain.db"
    small = peak("import", file(10_000, ending), "--dry-run", url=url)
    assert peak("import", file(100_000, ending), "--dry-run", url=url) - small < NOISE


@pytest.mark.long
def test_half_a_million_rows_need_no_more_memory_than_a_few(store, home, file):
    """Held whole they would need several hundred MiB; what an allocator keeps differs by some tens."""
    ending = ".parquet" if store.startswith("sqlite") else ".csv"
    small = peak("import", file(20_000, ending), url=store)
    assert peak("import", file(500_000, ending), url=store) - small < 2 * NOISE
    out = home / f"out{ending}"
    small = peak("export", out, "--job", "job-1", "--origin", "imported", url=store)
    assert peak("export", out, "--force", "--origin", "imported", url=store) - small < 2 * NOISE
