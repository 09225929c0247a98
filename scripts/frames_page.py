"""Writes docs/frames.md from the frames' layouts: each column with its type and meaning.

``--check`` compares instead of writing.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from pathlib import Path

from convoy.brain.features import frames
from convoy.brain.features.columns import Column
from convoy.brain.features.layout import DTYPES, Layout

PAGE = Path(__file__).parents[1] / "docs/frames.md"
HEAD = """\
# Frames

Generated from their layouts by `make docs`.

What the Brain's store holds, as pandas frames for models and notebooks:

```python
from convoy.brain.features import frames
from convoy.brain.store.engine import open_engine

engine = open_engine("mysql://analyst:PASSWORD@db/convoy")
frames.machine_hours(engine, cluster="east")
```

A moment (`since`, `until`, `over_since`) is a `datetime` that knows its time zone, such as
`datetime(2026, 3, 1, tzinfo=timezone.utc)`, or a `pandas.Timestamp` that does; text and moments without a zone are
refused.

`job_uid` is the uid that the cluster gave the job; the table `job` has it beside the name. Of one that isn't known
all but `observed` raise `NotFound`; given a name, the error says the uids of the jobs of that name.

Units: seconds, samples/s, cores, bytes; times are UTC. A number that isn't known is NaN, a label None, a flag NA;
counts are float64 for that reason. Where nothing is stored a frame is empty, with the same columns and types.

Frames say the same before and after `convoy brain maintain`: hours that it has summed are read from the roll-ups, the
others from the rows themselves. Rows are dropped after a while (`keep_speed_days` and those after it in
[settings.md](settings.md)); then `raw` and, later, `1m` reach back less far than `1h`.

With `chunks=100_000` a function gives an iterator of frames of at most so many rows, and no more are held at a time.
Read on without long pauses: on MySQL the series' days can neither be made nor dropped meanwhile.
"""


def page() -> str:
    """Return the page's text."""
    return "\n".join([HEAD, *(_section(layout) for layout in frames.LAYOUTS)])


def _section(layout: Layout) -> str:
    calls = "\n".join(_call(name) for name in layout.name.split(", "))
    rows = "\n".join(f"| `{column.name}` | {DTYPES[column.kind]} | {_meaning(column)} |" for column in layout.columns)
    order = f" Sorted by {', '.join(f'`{name}`' for name in layout.order)}." if layout.order else ""
    said = textwrap.fill(layout.row + order, 118)
    table = f"| column | type | what |\n| --- | --- | --- |\n{rows}"
    return f"## {layout.name}\n\n```python\n{calls}\n```\n\n{said}\n\n{table}\n"


def _call(name: str) -> str:
    parameters = inspect.signature(getattr(frames, name)).parameters.values()
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    return f"{name}{inspect.Signature(plain)}".replace("'", '"')


def _meaning(column: Column) -> str:
    one_of = f"; one of {', '.join(column.choices)}" if column.choices else ""
    return f"{column.meaning}{one_of}".replace("|", "\\|")


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="fail if docs/frames.md isn't what would be written")
    wanted = page()
    if not parser.parse_args().check:
        PAGE.write_text(wanted)
    elif not PAGE.exists() or PAGE.read_text() != wanted:
        sys.exit("docs/frames.md is stale; run `make docs` and commit it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
