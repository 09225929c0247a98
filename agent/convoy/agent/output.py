"""A worker's output: onto the console, into files, and its last lines kept for the account of a failure."""

from __future__ import annotations

import os
import threading
from collections import deque
from io import FileIO
from pathlib import Path

from convoy.core.api.errors import Unusable

_KEPT_LINES = 20
_KEPT_BYTES = 8192
NAMES = {1: "stdout", 2: "stderr"}


class Pump:
    """Copies a pipe in a thread of its own until it ends."""

    def __init__(self, name: str, *, console: int | None, prefix: str = "", path: Path | None = None) -> None:
        self._console, self._prefix = console, prefix.encode()
        self._tail: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._rest = b""
        self._file = _opened(path) if path is not None else None
        self._source, self.write_end = os.pipe2(os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._copy, name=f"output-{name}", daemon=True)
        self._thread.start()

    def _copy(self) -> None:
        while data := os.read(self._source, 65536):
            if self._file is not None:
                self._file.write(data)
            if self._console is not None and not self._prefix:
                self._show(data)
            *lines, self._rest = (self._rest + data).split(b"\n")
            self._rest = self._rest[-_KEPT_BYTES:]
            self._tail.extend(lines)
            if self._prefix and lines:
                self._show(b"".join(self._prefix + line + b"\n" for line in lines))
        if self._rest:
            self._tail.append(self._rest)
            if self._prefix:
                self._show(self._prefix + self._rest + b"\n")
        os.close(self._source)
        if self._file is not None:
            self._file.close()

    def _show(self, data: bytes) -> None:
        if self._console is not None:
            try:
                while data:
                    data = data[os.write(self._console, data) :]
            except OSError:  # nobody reads any more
                self._console = None

    def last_lines(self, wait: float = 0.3) -> str:
        """Return the last lines; waits for the end of the pipe as long as that."""
        self._thread.join(wait)
        return b"\n".join(self._tail)[-_KEPT_BYTES:].decode(errors="replace").strip()


class Outputs:
    """The pumps of one worker. stderr always goes through one; stdout where it is redirected or teed."""

    def __init__(
        self, local_rank: int, *, redirects: int, tee: int, shown: bool, prefix: str, directory: Path | None
    ) -> None:
        self._pumps: dict[int, Pump] = {}
        for stream, name in NAMES.items():
            teed, redirected = bool(tee & stream), bool(redirects & stream)
            if stream == 1 and not (teed or redirected) and shown:
                continue
            console = stream if shown and (teed or not redirected) else None
            try:
                path = None
                if directory is not None and (teed or redirected):
                    path = _made(directory / str(local_rank)) / f"{name}.log"
                self._pumps[stream] = Pump(
                    f"{local_rank}-{name}", console=console, prefix=prefix if teed else "", path=path
                )
            except Unusable:
                self._abandon()
                raise

    def streams(self) -> dict[int, int]:
        """Return the descriptors that the worker writes to, by their number there."""
        return {stream: pump.write_end for stream, pump in self._pumps.items()}

    def last_lines(self) -> str:
        """Return the last lines of stderr."""
        return self._pumps[2].last_lines()

    def _abandon(self) -> None:
        """End the pumps that no worker will write to."""
        for pump in self._pumps.values():
            os.close(pump.write_end)


def _opened(path: Path) -> FileIO:
    try:
        return FileIO(path, "a")
    except OSError as error:
        raise Unusable(f"--log-dir: {path}: {error.strerror or error}; name a writable directory") from None


def _made(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(f"--log-dir: {directory}: {error.strerror or error}; name a writable directory") from None
    return directory
