"""Files that a kill at any moment leaves whole: written anew, synced, renamed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from convoy.core.api.errors import CorruptState, UnknownSchema, Unusable
from convoy.core.process.crashpoint import crash_point

_ABANDONED_SECONDS = 60.0
"""A new file that wasn't renamed by then was left by a process that was killed."""


def write_atomically(path: Path, content: bytes) -> None:
    """Replace the file's content; a reader sees the old or the new one, never a part. The later writer counts.

    What a writer that was killed left beside the file is removed.

    Raises:
        Unusable: the folder isn't there or can't be written, or the disk is full; the old content stands.
    """
    with replacing(path) as file:
        file.write(content)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Give a new file that takes the place of ``path`` at the end, as ``write_atomically``; an error removes it.

    Raises:
        Unusable: as ``write_atomically``.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        crash_point("files.before-rename")
        os.replace(temporary, path)
        crash_point("files.after-rename")
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
        _remove_abandoned(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise Unusable(f"{path}: can't be written: {error.strerror}; free or name another place") from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _remove_abandoned(path: Path) -> None:
    """Remove new files of ``path`` that were never renamed; those that another process may be writing stay."""
    ours = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{8}}\.tmp")
    with contextlib.suppress(FileNotFoundError):  # another one was quicker
        for name in os.listdir(path.parent):
            if ours.fullmatch(name):
                left = path.with_name(name)
                if time.time() - left.stat().st_mtime > _ABANDONED_SECONDS:
                    left.unlink()


Migration = Callable[[dict[str, Any]], dict[str, Any]]


def save_state(path: Path, kind: str, schema: int, state: Mapping[str, Any]) -> None:
    """Write state of a kind at a schema version as JSON, atomically.

    Raises:
        Unusable: as ``write_atomically``.
    """
    write_atomically(path, state_text(kind, schema, state).encode())


def load_state(path: Path, kind: str, schema: int, migrations: Mapping[int, Migration]) -> dict[str, Any] | None:
    """Read state, brought up to ``schema``; None where there is none.

    Raises:
        UnknownSchema, CorruptState: as ``state_of``.
        Unusable: the file is there and can't be read.
    """
    try:
        _remove_abandoned(path)
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unusable(f"{path}: can't be read: {error.strerror}") from error
    return state_of(content, str(path), kind, schema, migrations)


def state_text(kind: str, schema: int, state: Mapping[str, Any]) -> str:
    """Return state of a kind at a schema version as JSON."""
    return json.dumps({"kind": kind, "schema": schema, "state": state}, separators=(",", ":"))


def state_of(
    content: str | bytes, place: str, kind: str, schema: int, migrations: Mapping[int, Migration]
) -> dict[str, Any]:
    """Return the state that ``state_text`` wrote, brought up to ``schema``; ``migrations[n]`` leads from n to n + 1.

    ``place`` says where it was found.

    Raises:
        UnknownSchema: written by a newer version.
        CorruptState: not state of that kind, or no migration leads from its version.
    """
    try:
        document = json.loads(content)
        found, version, state = document["kind"], int(document["schema"]), dict(document["state"])
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptState(f"{place}: not state of {kind}: {error!r}; move it away to start anew") from error
    if found != kind:
        raise CorruptState(f"{place}: holds {found!r}, expected {kind!r}; move it away to start anew")
    if version > schema:
        raise UnknownSchema(f"{place}: schema {version} of {kind} is newer than {schema}; upgrade Convoy")
    for step in range(version, schema):
        if step not in migrations:
            raise CorruptState(f"{place}: no migration of {kind} from schema {step}; move it away to start anew")
        try:
            state = migrations[step](state)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptState(
                f"{place}: {kind} of schema {step} can't be migrated: {error!r}; move it away to start anew"
            ) from error
    return state
