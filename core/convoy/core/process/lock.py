"""One process at a time: a lock that the kernel drops with its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Self


class ProcessLock:
    """An exclusive lock on a file, which holds the holder's pid for people to read.

    ``acquire`` never waits. The lock ends with the process, however it ends.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        """Take the lock; False where another process holds it."""
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
            os.close(self._file)
            self._file = None

    def holder(self) -> int | None:
        """Return the pid of the process that holds the lock, None where nobody does."""
        try:
            file = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.pread(file, 32, 0) or b"0")
        else:
            return None
        finally:
            os.close(file)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
