"""Which field an API server won't take, read from its answer: as a manifest's error, with the path. Pure.

A server says it in three ways, by verb and kind: causes of a status 422 (schemas, validation); the text of a 400
(strict decoding, Go's JSON decoder); the text of a 500 without a reason (server-side apply of what doesn't fit the
kind's types).
"""

from __future__ import annotations

import re
from typing import Any

from convoy.core.api.errors import InvalidManifest
from convoy.core.cluster.port import Kind

_SHOWN = 300
"""Characters of the server's words on one field that a message repeats."""
_SHOWN_FIELDS = 5

_UNKNOWN = re.compile(r'strict decoding error: (?:.*?)unknown field "([^"]+)"')
_DECODER = re.compile(r"cannot unmarshal (\S+) into Go struct field (\w+)\.(\S+) of type (\S+)")
_TYPED = re.compile(r"failed to (?:create typed patch object|convert new object) \([^)]*\)(?:[^:]*): (.*)", re.DOTALL)
_TYPED_FIELD = re.compile(r"(?:errors:\s+)?\.(\S+): (.*)", re.DOTALL)
_ECHO = re.compile(r"(\bgot|\bvalue:) .*", re.DOTALL)


def invalid(code: int, status: dict[str, Any], kind: Kind) -> InvalidManifest | None:
    """Return the error for what was sent, None where the answer isn't about that.

    Of a Secret no value is repeated: what the server quotes may be one.
    """
    found = _field(code, status)
    if found is None:
        return None
    path, said = found
    if kind is Kind.SECRET and not path.startswith("metadata"):
        said = _ECHO.sub(r"\1 (not repeated)", said)
    return InvalidManifest(path, said.strip())


def _field(code: int, status: dict[str, Any]) -> tuple[str, str] | None:
    said = str(status.get("message") or "")
    match code:
        case 422:
            return _causes(status) or ("", said[:_SHOWN])
        case 400:
            if unknown := _UNKNOWN.search(said):
                return unknown[1], "no such field"
            if wrong := _DECODER.search(said):
                # Metadata of a custom resource is decoded on its own.
                within = "metadata." if wrong[2] == "ObjectMeta" and not wrong[3].startswith("metadata") else ""
                return within + wrong[3], f"expected {wrong[4]}, not a {wrong[1]}"
            return ("", said[:_SHOWN]) if "cannot be handled as" in said else None
        case 500 if not status.get("reason") and (typed := _TYPED.match(said)):
            place = _TYPED_FIELD.match(typed[1])
            return (place[1], place[2][:_SHOWN]) if place else ("", typed[1][:_SHOWN])
    return None


def _causes(status: dict[str, Any]) -> tuple[str, str] | None:
    """Return the path of the first field, and what is said of it and of the others."""
    found: dict[str, str] = {}
    for cause in (status.get("details") or {}).get("causes") or []:
        if cause.get("field") not in (None, "", "<nil>"):
            found.setdefault(str(cause["field"]), str(cause.get("message") or "is not valid")[:_SHOWN])
    if not found:
        return None
    (path, first), *rest = found.items()
    others = [f"{field}: {said}" for field, said in rest[:_SHOWN_FIELDS]]
    more = [f"and {len(rest) - _SHOWN_FIELDS} more"] if len(rest) > _SHOWN_FIELDS else []
    return path, "; ".join([first, *others, *more])
