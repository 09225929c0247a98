"""The schema as one SQL script for MySQL and MariaDB, for people and for servers whose owner runs it by hand.

``python -m convoy.sql.render`` writes ``sql/schema.mysql.sql`` in a checkout; ``--check`` only compares.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from alembic import command

from convoy.sql.config import config

HEADER = """\
-- The store of Convoy's Brain for MySQL 8 and MariaDB 10.6 or newer, rendered from the migrations.
-- Don't edit: `python -m convoy.sql.render` writes it anew. `convoy brain migrate` does the same to a server.
"""


def render() -> str:
    """Return the script: what all migrations, run on an empty database, execute."""
    output = io.StringIO()
    settings = config()
    settings.attributes["output"] = output
    command.upgrade(settings, "head", sql=True)
    body = "\n".join(line.rstrip() for line in output.getvalue().splitlines() if not line.startswith("-- "))
    while "\n\n\n" in body:
        body = body.replace("\n\n\n", "\n\n")
    return HEADER + "\n" + body.strip() + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write or check the script; 1 if the file isn't what the migrations say."""
    parser = argparse.ArgumentParser(prog="python -m convoy.sql.render", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; status 1 if the file is stale")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parents[2] / "schema.mysql.sql",
        help="the file (default: sql/schema.mysql.sql of the checkout)",
    )
    given = parser.parse_args(arguments)
    text = render()
    if not given.check:
        given.output.write_text(text)
        return 0
    if given.output.is_file() and given.output.read_text() == text:
        return 0
    sys.stderr.write(f"{given.output} is stale: run python -m convoy.sql.render\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
