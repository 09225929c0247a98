"""Writes docs/history-format.md from the columns of history: each with its kind, bounds, and what its absence means.

``--check`` compares instead of writing.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from convoy.brain.features.columns import Column
from convoy.brain.ingest.history.absent import without
from convoy.brain.ingest.history.columns import FILE_COLUMNS, REQUIRED
from convoy.brain.ingest.history.csv_file import LONGEST_LINE
from convoy.brain.ingest.history.file import ENDINGS
from convoy.brain.ingest.history.rows import EARLIEST, LATEST, LONGEST_LABEL

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/history-format.md"

EXAMPLE = """\
job,model,strategy,workers,nodes,batch_size,throughput,observed_at,window_seconds,status,origin
resnet-nightly,resnet50,allreduce,1,1,256,310.5,2026-01-31T12:00:00Z,120,ok,rack 7
resnet-nightly,resnet50,allreduce,4,2,64,1112.8,2026-01-31T12:10:00Z,120,ok,rack 7
resnet-nightly,resnet50,allreduce,8,4,32,,2026-01-31T12:20:00Z,,oom,rack 7
"""

_NAMED = ", ".join(f"`{name}`" for name in REQUIRED)
_ENDINGS = ", ".join(f"`{ending}`" for ending in ENDINGS)

HEAD = f"""\
# History in files

Generated from the columns by `make docs`.

`convoy brain import FILE...` loads measurements of past jobs into the Brain's store, so that it can size jobs before
it has seen any of its own; `convoy brain export FILE` writes what the store knows in the same format. A row is **one
job's mean speed, and its load, at one configuration over one stretch of time**. All numbers are in base units:
seconds, samples/s, cores, bytes.

```csv
{EXAMPLE}```

## Columns

They may stand in any order. Required: {_NAMED}. An empty field is "not known". A file with a column
that isn't listed here is refused.

"""

TAIL = f"""
A `label` is text of at most {LONGEST_LABEL} characters without control characters; spaces at its ends don't count. A
`count` is a whole number. A `time` is a moment with its zone, from {EARLIEST.year} on and before {LATEST.year}. No
number is infinite or NaN. `throughput` may be empty where `status` is given and isn't `ok`.

## Formats

The end of a file's name says its format: {_ENDINGS}. The same rows are the same in all of them.

- **CSV**: UTF-8, with or without a byte order mark, plain or in gzip. Fields are separated by commas and quoted by
  `"`; lines end in LF, or CR and LF, the last one too. Lines before the header that begin with `#` are remarks, and
  empty lines are skipped. Numbers are plain (`1500`, `1.5e3`), times ISO 8601 (`2026-01-31T12:00:00Z`). A value
  holds no line break, and a line at most {LONGEST_LINE} bytes.
- **Parquet**: labels are strings (dictionaries too), numbers and counts are integers or floats of any width, times
  are timestamps with a zone. A column that holds nothing but nulls and NaN isn't known, whatever its type. From
  pandas: `frame.to_parquet(file, index=False)`, with times made by `read_csv(..., parse_dates=["observed_at"])` or
  `to_datetime`. Keep row groups below a few million rows.

Files are read bit by bit: memory doesn't grow with them.

## What an import does

- A row that can't be right is refused with its line (CSV) or its number (Parquet) and the reason, and the others are
  stored. A part of a file that is damaged is refused as a whole. `--strict` stores nothing unless all rows are good;
  `--dry-run` says what would happen and which columns the models would miss, and stores nothing.
- A file that can't be used at all (another format; a column unknown, missing or of a wrong type) ends the command
  before anything is stored, of any of its files.
- Rows that are in the store already are left alone, whatever file they come from: a row is known by its columns,
  `origin` left out. Two equal rows in one file are two measurements. So importing a file again, also after it was
  interrupted, adds what is missing and nothing twice.
- Rows of a job that the store measured itself (`job` is its uid) are left out: they count already.
- A database that is empty or of an older version is brought up to date first. A Brain that runs learns from what was
  imported before its next answer.

## Where rows come from

`origin` says where a row was measured, in any words; an import puts the file's name where it is empty. An export
writes what an imported row came with, and `measured` for the jobs that the store measured itself. In another store
those are imported rows like any others, and come out of it as they came in.

## What an export holds

First the imported rows, as they came. Then a row for each configuration of each measured job, past its warm-up; the
job stands under its uid. While a job runs these rows change, and an import takes a changed row for another
measurement: export jobs that are over. All columns are written, and numbers so that they read as the same numbers to
the last bit.

`--job` takes a name in column `job`, or a measured job's name. `--origin` is `measured` or `imported`. `--since`
leaves out what was measured earlier, and rows that don't say when.
"""


def page() -> str:
    """Return the page's text."""
    lines = ["| column | kind | what | may be | where it is absent or empty |", "| --- | --- | --- | --- | --- |"]
    for column in FILE_COLUMNS:
        name = f"**`{column.name}`**" if column.name in REQUIRED else f"`{column.name}`"
        lines.append(f"| {name} | {column.kind} | {column.meaning} | {_values(column)} | {without(column.name)} |")
    return HEAD + "\n".join(lines) + "\n" + TAIL


def _values(column: Column) -> str:
    if column.kind in ("label", "time"):
        return " or ".join(f"`{choice}`" for choice in column.choices)
    between = f"{_bound(column.least)} to {_bound(column.most)}"
    return f"0, or {between}" if column.zero else between


def _bound(value: float) -> str:
    """Return a bound as people write it: sizes of memory are powers of two."""
    mantissa, exponent = math.frexp(value)
    return f"2^{exponent - 1}" if mantissa == 0.5 and exponent > 20 else f"{value:g}"


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="fail if the page isn't what would be written")
    if parser.parse_args().check:
        if not PAGE.exists() or PAGE.read_text() != page():
            sys.exit(f"{PAGE.relative_to(ROOT)} is stale; run `make docs` and commit it")
    else:
        PAGE.write_text(page())
    sys.stdout.write(f"history: {len(FILE_COLUMNS)} columns\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
