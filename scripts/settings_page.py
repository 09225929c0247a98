"""Writes docs/settings.md from the settings classes: each field with its type, default, environment and flag.

``--check`` compares instead of writing. Two classes that read the same environment variable must read the same type.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from convoy.core.process.settings import Settings

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs/settings.md"
HEAD = """\
# Settings

Generated from the settings classes by `make docs`.

A value is taken from a flag, else from the environment, else from the file, else it is the default. The file is
`$CONVOY_CONFIG`, or `~/.config/convoy/convoy.toml`; it has a table a group. Logs: `CONVOY_LOG_LEVEL` (debug, info,
warning, error) and `CONVOY_LOG_FORMAT` (human, json; default: human on a terminal, JSON elsewhere). State lies in
`CONVOY_STATE_DIR`, or in `~/.local/state/convoy`.
"""


def classes() -> list[type[Settings]]:
    """Return all settings classes of the components, by table."""
    found: dict[str, type[Settings]] = {}
    for file in sorted(ROOT.glob("*/convoy/**/settings.py")):
        name = ".".join(file.relative_to(ROOT).with_suffix("").parts[1:])
        for _, kind in inspect.getmembers(importlib.import_module(name), inspect.isclass):
            if issubclass(kind, Settings) and kind is not Settings and kind.__module__ == name:
                found[kind.TABLE] = kind
    return [found[table] for table in sorted(found)]


def clashes(kinds: list[type[Settings]]) -> list[str]:
    """Return the variables that two settings read as different types: one process's would be refused by the other."""
    meant: dict[str, tuple[str, str]] = {}
    found = []
    for kind in kinds:
        for name, field in kind.model_fields.items():
            for variable in kind.variables(name):
                table, type_ = meant.setdefault(variable, (kind.TABLE, _type(field.annotation)))
                if type_ != _type(field.annotation):
                    found.append(
                        f"{variable} is {type_} to [{table}] and {_type(field.annotation)} to [{kind.TABLE}]"
                    )
    return found


def undescribed(kinds: list[type[Settings]]) -> list[str]:
    """Return the settings that say nothing of themselves."""
    return [
        f"{kind.__name__}.{name} has no description"
        for kind in kinds
        for name, field in kind.model_fields.items()
        if not field.description
    ]


def page(kinds: list[type[Settings]]) -> str:
    """Return the page's text."""
    return "\n".join([HEAD, *(_section(kind) for kind in kinds)])


def _section(kind: type[Settings]) -> str:
    rows = [
        f"| `{name}` | {_type(field.annotation)} | {_default(field)} | "
        f"{', '.join(f'`{variable}`' for variable in dict.fromkeys(kind.variables(name)))} | {_one_line(field)} |"
        for name, field in kind.model_fields.items()
    ]
    said = inspect.cleandoc(kind.__doc__ or "")
    head = "| setting | type | default | environment | what |\n| --- | --- | --- | --- | --- |"
    return f"## [{kind.TABLE}]\n\n{said}\n\n{head}\n" + "\n".join(rows) + "\n"


_WORDS = {
    str: "text",
    SecretStr: "text, secret",
    Path: "path",
    int: "whole number",
    float: "number",
    bool: "yes or no",
}


def _type(annotation: Any) -> str:
    """Return a setting's type in words; that it may be absent shows in its default."""
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is list:
        return f"list of {_type(parts[0])}"
    if get_origin(annotation) is Literal:
        return " or ".join(map(str, parts))
    if parts:
        return " or ".join(_type(part) for part in parts)
    return _WORDS.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: Any) -> str:
    if field.default_factory is not None:
        return "the state directory" if field.annotation is Path else "of the installation"
    if field.default is PydanticUndefined:
        return "required"
    value = _plain(field.default)
    return "none" if value is None else "empty" if value == "" else f"`{value}`"


def _plain(value: Any) -> Any:
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _one_line(field: Any) -> str:
    return " ".join((field.description or "").split()).replace("|", "\\|")


def main() -> int:
    """Write the page, or compare it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="fail if docs/settings.md isn't what would be written")
    check = parser.parse_args().check
    kinds = classes()
    wrong = clashes(kinds) + undescribed(kinds)
    if wrong:
        sys.exit("\n".join(wrong))
    wanted = page(kinds)
    if check:
        if not PAGE.exists() or PAGE.read_text() != wanted:
            sys.exit("docs/settings.md is stale; run `make docs` and commit it")
    else:
        PAGE.parent.mkdir(exist_ok=True)
        PAGE.write_text(wanted)
    sys.stdout.write(f"settings: {len(kinds)} groups\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
