"""A MariaDB for the tests: on a port and a data folder of its own.

python tests/servers/mariadb.py start   # prints CONVOY_TEST_MARIADB_URL=...; installs the server where root may
python tests/servers/mariadb.py url     # the same line if it runs, status 1 otherwise
python tests/servers/mariadb.py stop
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from servers.process import START_SECONDS, Failed, Process, free_port
from servers.programs import Package
from servers.shared import Server, main

PACKAGE = Package("mariadb-server")
VARIABLE = "CONVOY_TEST_MARIADB_URL"

_VOLATILE = ("--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--innodb-doublewrite=0")
"""Tests kill Convoy's processes, not the server that they share: it need not survive the machine's fall."""
_DURABLE = ("--innodb-flush-log-at-trx-commit=1",)
"""A commit is acknowledged when it is on disk."""


class MariaDB(Server):
    """One MariaDB; its port stays the same as long as the object lives, its data as long as its folder."""

    name = "mariadb"
    variables = (VARIABLE,)
    lasting = True

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        super().__init__(folder)
        self.port = free_port()
        self.process = Process("mariadbd", folder)
        self._data = folder / "data"
        self._durability = _DURABLE if durable else _VOLATILE

    @property
    def url(self) -> str:
        """The address of its database ``convoy_test``, for a user who may do anything."""
        return f"mysql://convoy:{(self.folder / 'password').read_text()}@127.0.0.1:{self.port}/convoy_test"

    def install(self) -> None:
        """Install the system package where root may."""
        PACKAGE.install("mariadbd", "mariadb-install-db")

    def start(self) -> None:
        """Start it, with an empty data folder where there is none."""
        command = [
            PACKAGE.program("mariadbd"),
            "--no-defaults",
            f"--datadir={self._data}",
            f"--user={_user()}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.folder / 'socket'}",
            f"--pid-file={self.folder / 'server.pid'}",
            f"--tmpdir={self.folder}",  # a server that starts removes others' temporary tables from where its own go
            f"--init-file={self.folder / 'init.sql'}",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--innodb-buffer-pool-size=128M",
            *self._durability,
        ]
        self._make_data()
        self.process.start(command, self._answers)

    def running(self) -> bool:
        """Return whether it runs."""
        return self.process.running() is not None

    def stop(self) -> None:
        """End it in order."""
        self.process.stop()

    def kill(self) -> None:
        """End it as a crash does; ``start`` brings it back with what it had acknowledged."""
        self.process.kill()

    def environment(self) -> dict[str, str]:
        """Return its address."""
        return {VARIABLE: self.url}

    def _make_data(self) -> None:
        """Make the data folder once, with a user of the tests' own."""
        secret = self.folder / "password"
        if secret.is_file() and (self._data / "mysql").is_dir():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        install = PACKAGE.program("mariadb-install-db")
        flags = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]
        done = subprocess.run(
            [install, *flags, f"--datadir={self._data}", f"--user={_user()}"],
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
        )
        if done.returncode != 0:
            raise Failed(f"{install} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        password = secrets.token_urlsafe(12)
        (self.folder / "init.sql").write_text(
            f"CREATE USER IF NOT EXISTS 'convoy'@'127.0.0.1' IDENTIFIED BY '{password}';\n"
            "GRANT ALL ON *.* TO 'convoy'@'127.0.0.1';\n"
            "CREATE DATABASE IF NOT EXISTS convoy_test CHARACTER SET utf8mb4;\n"
        )
        secret.touch(mode=0o600)
        secret.write_text(password)

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1.0) as connection:
                return bool(connection.recv(1))  # the server speaks first
        except OSError:
            return False


def _user() -> str:
    return pwd.getpwuid(os.geteuid()).pw_name


if __name__ == "__main__":
    main(MariaDB)
