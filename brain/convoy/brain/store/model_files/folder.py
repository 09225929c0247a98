"""The folder of model files: each named by its content, written once and never changed.

``throughput/<SHA-256 of the file>.safetensors``. A file is written anew, synced and renamed: it is there whole or not
at all. What no version of the store names is left alone: the folder may serve another store as well.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from convoy.brain.models.registry.codec import LARGEST, digest
from convoy.core.api.errors import CorruptState, Unusable
from convoy.core.process import files

_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}/[0-9a-f]{64}\.safetensors")
_ABANDONED_SECONDS = 3600.0


class Folder:
    """Keeps model files below ``path``, which is made when the first one is written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, model: str, content: bytes) -> str:
        """Write a model's file and return its name in the folder; one that is there is written again.

        Raises:
            Unusable: the folder can't be written, or the disk is full.
        """
        name = f"{model}/{digest(content)}.safetensors"
        file = self.path / name
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise Unusable(
                f"models folder {self.path}: {error.strerror or error}; name a writable one with CONVOY_MODELS_DIR",
                reason="ModelsFolderUnwritable",
            ) from error
        files.write_atomically(file, content)
        return name

    def read(self, name: str) -> bytes:
        """Return a file's content, which is what its name says.

        Raises:
            CorruptState: it is larger than any model file is, or not what its name says.
            Unusable: it isn't there, or can't be read.
        """
        if not _NAME.fullmatch(name):
            raise CorruptState(f"model file {name!r}: not a name that Convoy gives", reason="ModelFileForeign")
        file = self.path / name
        try:
            if file.stat().st_size > LARGEST:
                raise CorruptState(
                    f"{file}: {file.stat().st_size:,} bytes, and no model file has more than {LARGEST:,}",
                    reason="ModelFileTooLarge",
                )
            content = file.read_bytes()
        except OSError as error:
            raise Unusable(
                f"{file}: can't be read: {error.strerror or error}; is CONVOY_MODELS_DIR right?",
                reason="ModelFileMissing" if isinstance(error, FileNotFoundError) else "ModelFileUnreadable",
            ) from error
        if digest(content) != file.stem:
            raise CorruptState(
                f"{file}: its content isn't what its name says: it was damaged or replaced", reason="ModelFileCorrupt"
            )
        return content

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        if _NAME.fullmatch(name):
            with contextlib.suppress(OSError):
                (self.path / name).unlink()

    def names(self) -> list[str]:
        """Return the names of the files that lie there, in order."""
        found = self.path.glob("*/*.safetensors")
        return sorted(name for file in found if _NAME.fullmatch(name := file.relative_to(self.path).as_posix()))

    def remove_abandoned(self) -> None:
        """Remove what a writer that was killed left half written."""
        for file in self.path.glob("*/.*.safetensors.*.tmp"):
            with contextlib.suppress(OSError):  # another one was quicker
                if time.time() - os.stat(file).st_mtime > _ABANDONED_SECONDS:
                    file.unlink()
