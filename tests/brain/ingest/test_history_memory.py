"""A file of history may be larger than memory: what an import needs doesn't grow with it."""

import csv
import os
import subprocess

import pytest

from support.command import COMMAND
from support.history_files import many, write_parquet

MIB = 2**20
CACHES = 32 * MIB
"""What the counts of keys and a few thousand rows take at most. All rows of a test would take several times that."""


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
    command = [*COMMAND, "brain", *map(str, arguments)]
    process = subprocess.Popen(command, env={**os.environ, "CONVOY_DATABASE_URL": url}, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_rehearsal_of_ten_times_the_rows_needs_no_more_memory(home, file, ending):
    url = f"sqlite:///{home}/brain.db"
    small = peak("import", file(20_000, ending), "--dry-run", url=url)
    assert peak("import", file(200_000, ending), "--dry-run", url=url) - small < CACHES


@pytest.mark.long
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_million_rows_need_no_more_memory_than_a_hundred_thousand(store, home, file, ending):
    small, large = file(100_000, ending), file(1_000_000, ending)
    first = peak("import", small, url=store)
    assert peak("import", large, url=store) - first < CACHES
    out = home / f"out{ending}"
    first = peak("export", out, "--job", "job-1", "--origin", "imported", url=store)
    assert peak("export", out, "--force", "--origin", "imported", url=store) - first < CACHES
