"""``python tests/servers/NAME.py start|url|stop``: started once, found again, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from servers.api_server import ETCD, KUBERNETES
from servers.cache import PROGRAMS
from servers.mariadb import PACKAGE as MARIADB
from servers.programs import Missing
from servers.prometheus import EXPORTER_PACKAGE
from servers.prometheus import PACKAGE as PROMETHEUS

HERE = Path(__file__).parent
VARIABLES = {
    "mariadb": ["CONVOY_TEST_MARIADB_URL"],
    "prometheus": [
        "CONVOY_TEST_PROMETHEUS_URL",
        "CONVOY_TEST_NODE_EXPORTER_URL",
        "CONVOY_TEST_PROMETHEUS_TARGETS",
    ],
    "api-server": ["CONVOY_TEST_KUBECONFIG"],
}
NEEDS = {
    "mariadb": [(MARIADB, "mariadbd")],
    "prometheus": [(PROMETHEUS, "prometheus"), (EXPORTER_PACKAGE, "prometheus-node-exporter")],
    "api-server": [(ETCD, "server"), (KUBERNETES, "kube-apiserver")],
}


def run(*arguments, **environment):
    """Run a script as a user without servers would, with the test's home as the user's."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("CONVOY_TEST_")}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=own | environment, capture_output=True, text=True, timeout=50)


@pytest.fixture
def cache():
    """Return the cache of the test's home, which holds the programs that were built."""
    folder = Path(os.environ["XDG_CACHE_HOME"]) / "convoy"
    folder.mkdir()
    (folder / "programs").symlink_to(PROGRAMS)
    return folder


@pytest.mark.servers
@pytest.mark.parametrize("name", VARIABLES)
def test_a_server_is_started_once_found_again_and_stopped(name, cache):
    try:
        for source, program in NEEDS[name]:
            source.program(program)
    except Missing as missing:
        pytest.skip(str(missing))
    script = HERE / f"{name.replace('-', '_')}.py"
    refused = run(script, "url")
    assert refused.returncode == 1
    assert "start it with `make servers`" in refused.stderr
    try:
        first = run(script, "start")
        pids = {file: file.read_text() for file in (cache / "servers" / name).glob("*.pid")}
        second = run(script, "start")
        assert first.returncode == second.returncode == 0, first.stderr + second.stderr
        assert first.stdout == second.stdout == run(script, "url").stdout
        assert [line.partition("=")[0] for line in first.stdout.splitlines()] == VARIABLES[name]
        assert pids
        assert {file: file.read_text() for file in (cache / "servers" / name).glob("*.pid")} == pids
        environment = cache / "servers" / f"{name}.env"
        assert environment.read_text() == first.stdout
        assert environment.stat().st_mode & 0o777 == 0o600
    finally:
        stopped = run(script, "stop")
    assert stopped.returncode == 0, stopped.stderr
    assert run(script, "url").returncode == 1
    assert run(script, "stop").returncode == 0


def test_what_cannot_be_brought_is_left_out_and_named_in_the_end():
    ran = run(HERE, "start", PATH="/nowhere")
    assert ran.returncode == 0, ran.stderr
    left = ran.stderr.splitlines()[-3:]
    for name, line in zip(VARIABLES, left, strict=True):
        assert line.startswith(f"servers: {name} is left out, and tests that need it will be skipped: ")
    assert "apt-get install" in left[0]
    assert "https://go.dev/dl/" in left[2]


def test_a_server_of_the_users_own_is_used_and_none_is_started():
    given = "mysql://me:secret@db.example:3306/mine"
    for command in ("start", "url"):
        ran = run(HERE / "mariadb.py", command, CONVOY_TEST_MARIADB_URL=given)
        assert (ran.returncode, ran.stdout) == (0, f"CONVOY_TEST_MARIADB_URL={given}\n")


def test_a_wrong_command_is_answered_with_those_there_are():
    assert "start|stop|url" in run(HERE / "mariadb.py", "restart").stderr
