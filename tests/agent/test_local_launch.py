"""A launch on one machine without a master: real processes, whose ends are told by exit statuses."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from convoy.agent.local import pause_before
from support.launches import launch, launched, script
from support.waiting import until

FRESH = "--start-method=spawn"
"""Fresh interpreters: these scripts need no torch, so nothing has to be imported first."""


def test_workers_learn_their_place(tmp_path: Path) -> None:
    names = (
        "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK", "ROLE_NAME",
        "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "OMP_NUM_THREADS",
    )  # fmt: skip
    path = script(
        tmp_path,
        f"""
        import json, os, pathlib, socket, sys
        found = {{name: os.environ[name] for name in {names!r}}} | {{"argv": sys.argv[1:]}}
        if found["RANK"] == "0":  # the port is free for the store
            socket.create_server(("", int(found["MASTER_PORT"]))).close()
        pathlib.Path(__file__).with_name(found["RANK"]).write_text(json.dumps(found))
        """,
    )
    ended = launch("--nproc-per-node=2", "--rdzv-id=run", "--role=trainer", FRESH, path, "--epochs", "3")
    assert (ended.status, ended.out, ended.err) == (0, "", "")
    first, second = (json.loads((tmp_path / rank).read_text()) for rank in "01")
    assert second["LOCAL_RANK"] == second["RANK"] == "1"
    assert second["MASTER_PORT"] == first["MASTER_PORT"]
    for found in (first, second):
        assert found["argv"] == ["--epochs", "3"]
        assert (found["WORLD_SIZE"], found["LOCAL_WORLD_SIZE"], found["GROUP_RANK"]) == ("2", "2", "0")
        assert (found["TORCHELASTIC_RUN_ID"], found["ROLE_NAME"], found["OMP_NUM_THREADS"]) == ("run", "trainer", "1")


def test_the_exit_status_is_the_first_failing_workers(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import os, sys, time
        if os.environ["RANK"] == "1":
            sys.exit(7)
        time.sleep(60)
        """,
    )
    ended = launch("--nproc-per-node=2", FRESH, path)
    assert ended.status == 7
    assert ended.seconds < 10


def test_a_killed_worker_gives_128_and_its_signal() -> None:
    assert launch("--no-python", "sh", "-c", "kill -9 $$").status == 137
    assert launch("--no-python", "sh", "-c", "kill -SEGV $$").status == 139


def test_restarts_are_counted_and_end(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import os, pathlib, sys
        with open(pathlib.Path(__file__).with_name("starts"), "a") as file:
            file.write(os.environ["TORCHELASTIC_RESTART_COUNT"])
        sys.exit(3)
        """,
    )
    ended = launch("--max-restarts=2", FRESH, path)
    assert ended.status == 3
    assert (tmp_path / "starts").read_text() == "012"
    assert [pause_before(restart) for restart in (1, 2, 3, 20)] == [0.1, 0.2, 0.4, 10.0]


SLEEPER = """
import os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
def on_term(*_):
    (here / f"told-{os.environ['RANK']}").write_text("")
    if "stubborn" not in sys.argv:
        sys.exit(0)
signal.signal(signal.SIGTERM, on_term)
(here / f"pid-{os.environ['RANK']}").write_text(str(os.getpid()))
while True:
    time.sleep(0.05)
"""


def pids(directory: Path, count: int) -> list[int]:
    files = [directory / f"pid-{rank}" for rank in range(count)]
    until(lambda: all(file.exists() and file.read_text() for file in files), "the workers to start", timeout=40)
    return [int(file.read_text()) for file in files]


@pytest.mark.parametrize("stubborn", [False, True])
def test_sigterm_is_handed_on_and_waited_for(tmp_path: Path, stubborn: bool) -> None:
    path = script(tmp_path, SLEEPER)
    extra = ["stubborn"] if stubborn else []
    with launched("--nproc-per-node=2", "--shutdown-timeout=1", FRESH, str(path), *extra) as process:
        workers = pids(tmp_path, 2)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 143
        assert "Traceback" not in errors
    assert (tmp_path / "told-0").exists()
    assert (tmp_path / "told-1").exists()
    assert not any(psutil.pid_exists(pid) for pid in workers)


def test_workers_and_fork_server_die_with_a_killed_launcher(tmp_path: Path) -> None:
    path = script(tmp_path, SLEEPER)
    with launched("--nproc-per-node=2", FRESH, str(path)) as process:
        workers = pids(tmp_path, 2)
        tree = psutil.Process(process.pid).children(recursive=True)
        assert {child.pid for child in tree} >= set(workers)
        process.kill()
        process.wait(10)
        until(lambda: not any(child.is_running() for child in tree), "all of its children to be gone", timeout=5)


def test_output_goes_to_the_console_and_to_files(tmp_path: Path) -> None:
    path = script(
        tmp_path,
        """
        import os, sys
        print("out of", os.environ["RANK"])
        print("err of", os.environ["RANK"], file=sys.stderr)
        """,
    )
    logs = tmp_path / "logs"
    ended = launch("--nproc-per-node=2", FRESH, f"--log-dir={logs}", "--tee=1", "--redirects=2", path)
    assert sorted(ended.out.splitlines()) == ["[default0]:out of 0", "[default1]:out of 1"]
    assert ended.err == ""
    files = {f"{file.parent.name}/{file.name}": file.read_text() for file in logs.rglob("*.log")}
    assert files == {
        "0/stdout.log": "out of 0\n",
        "0/stderr.log": "err of 0\n",
        "1/stdout.log": "out of 1\n",
        "1/stderr.log": "err of 1\n",
    }
    filtered = launch("--nproc-per-node=2", FRESH, "--local-ranks-filter=1", path)
    assert (filtered.out, filtered.err) == ("out of 1\n", "err of 1\n")


def test_a_port_in_use_is_told(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        ended = launch(f"--master-port={port}", FRESH, script(tmp_path, ""))
    assert ended.status == 2
    assert f"--master-port={port}" in ended.err


def test_no_master_in_time_names_its_address(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    ended = launch(
        "--nnodes=2", "--rdzv-conf=join_timeout=2", FRESH, script(tmp_path, ""),
        env={"DLROVER_MASTER_ADDR": f"127.0.0.1:{port}"},
    )  # fmt: skip
    assert ended.status == 1
    assert f"127.0.0.1:{port}" in ended.err
    assert "join_timeout" in ended.err
    assert ended.seconds < 10
