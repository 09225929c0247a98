"""Reads pods' logs from their end, so that a long log costs no more than what is shown."""

from __future__ import annotations

import os
from pathlib import Path

_BLOCK = 64 * 1024


def read(path: Path, tail: int | None = None) -> str:
    """Return a log's text, or its last ``tail`` lines; what isn't UTF-8 is replaced. A log not begun yet is empty."""
    try:
        with open(path, "rb") as file:
            if tail is None:
                return file.read().decode(errors="replace")
            begin = file.seek(0, os.SEEK_END)
            content = b""
            while begin > 0 and content.count(b"\n") <= tail:
                step = min(_BLOCK, begin)
                begin = file.seek(begin - step)
                content = file.read(step) + content
    except FileNotFoundError:
        return ""
    lines = content.splitlines(keepends=True)
    return b"".join(lines[len(lines) - tail :] if tail < len(lines) else lines).decode(errors="replace")
