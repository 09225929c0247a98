"""Where the migrations lie, and what holds for each run of them."""

from __future__ import annotations

from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

VERSION_TABLE = "convoy_schema_version"
"""Of a name of its own: another program's Alembic table in the same database is not taken for ours."""


def config() -> Config:
    """Return Alembic's configuration; there is no ini file."""
    settings = Config()
    settings.set_main_option("script_location", str(Path(__file__).parent))
    settings.set_main_option("path_separator", "os")
    return settings


def head() -> str:
    """Return the newest revision that this version of Convoy knows."""
    found = ScriptDirectory.from_config(config()).get_current_head()
    assert found is not None, "the wheel holds no migration"
    return found


def known() -> frozenset[str]:
    """Return all revisions that this version of Convoy knows."""
    return frozenset(script.revision for script in ScriptDirectory.from_config(config()).walk_revisions())
