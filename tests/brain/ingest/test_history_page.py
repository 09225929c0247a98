"""The page of the format says what the code does."""

import history_page

from convoy.brain.ingest.history import import_history
from convoy.brain.ingest.history.columns import FILE_COLUMNS


def test_the_page_is_what_would_be_written():
    assert history_page.PAGE.read_text() == history_page.page(), "run `python scripts/history_page.py`"


def test_it_lists_every_column_once():
    lines = [line for line in history_page.page().splitlines() if line.startswith("|")]
    assert [line.split("`")[1] for line in lines[2:]] == [column.name for column in FILE_COLUMNS]


def test_its_example_can_be_imported(engine, home):
    path = home / "example.csv"
    path.write_text(history_page.EXAMPLE)
    imported = import_history(engine, path)
    assert (imported.added, imported.refused.rows) == (3, 0)
