"""One process at a time: a lock that the kernel drops with its holder.

It is a lock of the open file (``F_OFD_SETLK``, Linux), because that kind can be asked about without being taken: a
look at who holds it never makes another's attempt to take it fail.
"""

from __future__ import annotations

import fcntl
import os
import struct
from pathlib import Path
from typing import Self

from convoy.core.api.errors import Unusable

_FLOCK = "hhqqi0q"  # struct flock: type, whence, start, length, pid


class ProcessLock:
    """An exclusive lock on a file, which holds the holder's pid for people to read.

    ``acquire`` never waits. The lock ends with the process, however it ends; children made by fork keep it as long as
    they live, those made by exec don't.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take the lock; False where another holds it, True also where this object does already."""
        if self._file is not None:
            return True
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.fcntl(file, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_WRLCK))
        except BlockingIOError:
            os.close(file)
            return False
        os.ftruncate(file, 0)
        os.pwrite(file, str(os.getpid()).encode(), 0)
        self._file = file
        return True

    def release(self) -> None:
        """Give the lock back."""
        if self._file is not None:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _whole_file(fcntl.F_UNLCK))
            os.close(self._file)
            self._file = None

    def holder(self) -> int | None:
        """Return the pid of the process that holds the lock (0: it took it just now), None where nobody does."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            answer = fcntl.fcntl(file, fcntl.F_OFD_GETLK, _whole_file(fcntl.F_WRLCK))
            if struct.unpack(_FLOCK, answer)[0] == fcntl.F_UNLCK:
                return None
            return int(os.pread(file, 32, 0) or b"0")
        finally:
            os.close(file)

    def __enter__(self) -> Self:
        if not self.acquire():
            raise Unusable(f"{self.path}: held by process {self.holder()}; stop it first", reason="AlreadyRunning")
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _whole_file(kind: int) -> bytes:
    return struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0)
