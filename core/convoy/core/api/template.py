"""The template key: what a job runs, so that jobs that run the same can learn from each other. Pure."""

from __future__ import annotations

import hashlib
import json
import posixpath
import re

from convoy.core.api.job import Container

_NUMBER = re.compile(r"\d+(\.\d+)?")


def template_key(container: Container) -> str:
    """Return what runs, as a hash: image, command and arguments, paths by their last part and numbers left out.

    Two submissions of one script with another learning rate or another folder have the same key.
    """
    image = (container.image or "").rpartition("@")[0] or container.image or ""
    words = [_plain(word) for word in (*(container.command or []), *(container.args or []))]
    return hashlib.sha256(json.dumps([image, words]).encode()).hexdigest()[:16]


def _plain(word: str) -> str:
    """Return ``--name=value`` with the value's last part, ``#`` for its numbers; of any other word that part."""
    parts = word.split("=")
    options = next((place for place, part in enumerate(parts[:-1]) if not part.startswith("-")), len(parts) - 1)
    value = "=".join(parts[options:])
    return "".join(f"{name}=" for name in parts[:options]) + _NUMBER.sub("#", posixpath.basename(value.rstrip("/")))
