"""The servers' programs: from the system's packages, or built from Go modules and kept in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from servers.cache import PROGRAMS

INSTALL_SECONDS = 600.0
BUILD_SECONDS = 3600.0
SEARCH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))


class Missing(Exception):
    """A program isn't there; the message says how to bring it."""


def say(text: str) -> None:
    """Tell what takes long, on standard error: standard output is for addresses."""
    sys.stderr.write(f"servers: {text}\n")
    sys.stderr.flush()


@dataclass(frozen=True)
class Package:
    """Programs of a system package."""

    name: str

    def program(self, name: str) -> str:
        """Return the program's path.

        Raises:
            Missing: it isn't installed.
        """
        if found := shutil.which(name, path=SEARCH):
            return found
        raise Missing(f"{name} isn't there: install the system package {self.name} (apt-get install {self.name})")

    def install(self, *programs: str) -> None:
        """Install the package if one of the programs isn't there, and start none of its services.

        Raises:
            Missing: it isn't there, and only root can install it, by apt-get.
        """
        if all(shutil.which(name, path=SEARCH) for name in programs):
            return
        if os.geteuid() == 0 and shutil.which("apt-get"):
            say(f"installing the system package {self.name}")
            silent = {"DEBIAN_FRONTEND": "noninteractive"}
            install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", self.name]
            with _services_stay_down():
                _finish(["apt-get", "update", "-qq"], INSTALL_SECONDS, silent)
                _finish(install, INSTALL_SECONDS, silent)
        for name in programs:
            self.program(name)


@dataclass(frozen=True)
class GoModule:
    """Programs that are tools of a Go module in ``go/NAME``, whose go.sum pins all that they are built from."""

    name: str
    packages: tuple[str, ...]
    flags: str = ""
    """The linker's, beyond those that leave out what only debuggers need."""

    @property
    def module(self) -> Path:
        """Where go.mod and go.sum are."""
        return Path(__file__).parent / "go" / self.name

    @property
    def folder(self) -> Path:
        """Where the programs are once they are built; another place for other versions."""
        digest = hashlib.sha256(" ".join((*self.packages, self.flags)).encode())
        for file in ("go.mod", "go.sum"):
            digest.update((self.module / file).read_bytes())
        return PROGRAMS / f"{self.name}-{platform.machine()}-{digest.hexdigest()[:16]}"

    def program(self, name: str) -> str:
        """Return the program's path.

        Raises:
            Missing: it isn't built.
        """
        path = self.folder / name
        if path.is_file():
            return str(path)
        raise Missing(f"{self.name} (its {name}) isn't built: `make servers` builds it, where Go is installed")

    def install(self) -> None:
        """Build the programs if they aren't there: they appear all at once, or not at all.

        Raises:
            Missing: Go isn't installed, or couldn't build them.
        """
        if self.folder.is_dir():
            return
        go = shutil.which("go", path=SEARCH)
        if go is None:
            raise Missing(f"{self.name} is built by Go 1.26 or newer, and there is no Go: https://go.dev/dl/")
        say(f"building {self.name} of {self.module}: once, for minutes; it stays in {self.folder}")
        PROGRAMS.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{self.name}-", dir=PROGRAMS) as partial:
            built = Path(partial, "programs")
            built.mkdir()
            link = f"-s -w {self.flags}".strip()
            command = [go, "build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", link]
            _finish(
                [*command, "-o", f"{built}{os.sep}", *self.packages],
                BUILD_SECONDS,
                {"CGO_ENABLED": "0", "GOWORK": "off"},
                cwd=self.module,
            )
            built.rename(self.folder)


def _finish(command: list[str], seconds: float, environment: dict[str, str], cwd: Path | None = None) -> None:
    """Run a command that prints nothing to the user unless it fails."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
        )
    except subprocess.TimeoutExpired as error:
        raise Missing(f"`{' '.join(command)}` wasn't done within {seconds:g} s") from error
    if done.returncode != 0:
        raise Missing(f"`{' '.join(command)}` failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")


@contextlib.contextmanager
def _services_stay_down() -> Iterator[None]:
    """Have packages start no service while they are installed: status 101 of Debian's policy-rc.d forbids it."""
    policy = Path("/usr/sbin/policy-rc.d")
    if policy.exists():  # the machine has a policy of its own
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()
