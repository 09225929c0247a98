"""A MariaDB of our own for the tests: a private port and data folder, under the user's cache.

    python tests/servers/mariadb.py start   # prints CONVOY_TEST_MARIADB_URL=...; installs the server where root may
    python tests/servers/mariadb.py url     # the same line if it runs, status 1 otherwise
    python tests/servers/mariadb.py stop

Everything lies in ``${XDG_CACHE_HOME:-~/.cache}/convoy/servers/mariadb/``. The environment line is also written to
``${XDG_CACHE_HOME:-~/.cache}/convoy/servers/mariadb.env`` while the server runs.
"""

from __future__ import annotations

import fcntl
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

VARIABLE = "CONVOY_TEST_MARIADB_URL"
START_SECONDS = 60.0
STOP_SECONDS = 30.0
INSTALL_SECONDS = 600.0
SEARCH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))


def servers_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "convoy" / "servers"


def home() -> Path:
    return servers_folder() / "mariadb"


def environment_file() -> Path:
    return servers_folder() / "mariadb.env"


def fail(message: str) -> None:
    sys.stderr.write(f"mariadb: {message}\n")
    sys.exit(1)


def program(name: str) -> str:
    found = shutil.which(name, path=SEARCH)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        sys.stderr.write("mariadb: installing the system package mariadb-server\n")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "mariadb-server"]):
            subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=INSTALL_SECONDS)
        found = shutil.which(name, path=SEARCH)
    if found is None:
        fail(
            f"{name} isn't there: install the system package mariadb-server (Debian: apt-get install mariadb-server)"
        )
    assert found is not None
    return found


def running() -> int | None:
    """The server's pid, if the process with the recorded pid is ours."""
    try:
        pid = int((home() / "pid").read_text())
        command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except (OSError, ValueError):
        return None
    return pid if f"--datadir={home() / 'data'}".encode() in command else None


def answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1.0) as connection:
            return bool(connection.recv(1))  # the server speaks first
    except OSError:
        return False


def ensure_data(user: str) -> str:
    """Make the data folder once, with a user of the tests' own; returns the user's password."""
    secret = home() / "password"
    data = home() / "data"
    if secret.is_file() and (data / "mysql").is_dir():
        return secret.read_text()
    shutil.rmtree(home(), ignore_errors=True)
    home().mkdir(parents=True, mode=0o755)
    install = program("mariadb-install-db")
    done = subprocess.run(
        [install, "--no-defaults", "--auth-root-authentication-method=normal", f"--datadir={data}", f"--user={user}"],
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
    )
    if done.returncode != 0:
        fail(f"{install} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    password = secrets.token_urlsafe(12)
    (home() / "init.sql").write_text(
        f"CREATE USER IF NOT EXISTS 'convoy'@'127.0.0.1' IDENTIFIED BY '{password}';\n"
        "GRANT ALL ON *.* TO 'convoy'@'127.0.0.1';\n"
        "CREATE DATABASE IF NOT EXISTS convoy_test CHARACTER SET utf8mb4;\n"
    )
    secret.touch(mode=0o600)
    secret.write_text(password)
    return password


def start() -> None:
    servers_folder().mkdir(parents=True, exist_ok=True)
    with open(servers_folder() / "mariadb.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if running() is None or not environment_file().is_file():
            _start()
    sys.stdout.write(environment_file().read_text())


def _start() -> None:
    _stop()
    server = program("mariadbd")
    user = pwd.getpwuid(os.geteuid()).pw_name
    password = ensure_data(user)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = home() / "log"
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [
                server,
                "--no-defaults",
                f"--datadir={home() / 'data'}",
                f"--user={user}",
                f"--port={port}",
                "--bind-address=127.0.0.1",
                f"--socket={home() / 'socket'}",
                f"--pid-file={home() / 'server.pid'}",
                f"--init-file={home() / 'init.sql'}",
                "--skip-name-resolve",
                "--skip-log-bin",
                "--innodb-buffer-pool-size=128M",
                # Tests kill Convoy's processes, not this server: it need not survive the machine's fall.
                "--innodb-flush-log-at-trx-commit=2",
                "--innodb-flush-method=nosync",
                "--innodb-doublewrite=0",
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    (home() / "pid").write_text(str(process.pid))
    until = time.monotonic() + START_SECONDS
    while not answers(port):
        if process.poll() is not None or time.monotonic() > until:
            _stop()
            fail(f"it didn't start; the end of {log}:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.05)
    line = f"{VARIABLE}=mysql://convoy:{password}@127.0.0.1:{port}/convoy_test\n"
    environment_file().touch(mode=0o600)
    environment_file().write_text(line)


def stop() -> None:
    servers_folder().mkdir(parents=True, exist_ok=True)
    with open(servers_folder() / "mariadb.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _stop()


def _stop() -> None:
    environment_file().unlink(missing_ok=True)
    pid = running()
    if pid is None:
        return
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + STOP_SECONDS
    while running() == pid and not _zombie(pid):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            fail(f"process {pid} didn't end within {STOP_SECONDS:g} s of SIGTERM; it was killed")
        time.sleep(0.05)


def _zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def url() -> None:
    if running() is None or not environment_file().is_file():
        fail("it doesn't run; start it with `make servers`")
    sys.stdout.write(environment_file().read_text())


COMMANDS = {"start": start, "stop": stop, "url": url}

if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in COMMANDS:
        sys.exit(f"usage: {sys.argv[0]} {'|'.join(COMMANDS)}")
    COMMANDS[sys.argv[1]]()
