"""The guard is itself guarded: tests that leave things behind fail, and tests that clean up don't."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
LEAKS = """
    kept = []

    def test_process():
        subprocess.Popen(["sleep", "60"])

    def test_daemon():
        script = "import subprocess; subprocess.Popen(['sleep', '60'], start_new_session=True)"
        subprocess.run([sys.executable, "-c", script], check=True)

    def test_listening_socket():
        server = socket.socket()
        server.bind(("127.0.0.1", 0))
        server.listen()
        kept.append(server)

    def test_unix_socket(home):
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(home / "agent.sock"))
        server.listen()
        kept.append(server)

    def test_segment():
        made = Path("/dev/shm", f"convoy-guard-{os.getpid()}")
        made.write_bytes(b"x")
        atexit.register(made.unlink)
        with made.open("r+b") as file:  # in use: a test beside this one must not be blamed for it
            kept.append(mmap.mmap(file.fileno(), 1))

    def test_thread():
        threading.Thread(target=time.sleep, args=(4,), name="lost").start()
"""
NAMED = {
    "process": "process: ",
    "daemon": "process: ",
    "listening_socket": "listening socket: port ",
    "unix_socket": "listening socket: ",
    "segment": "segment: /dev/shm/convoy-guard-",
    "thread": "thread: lost",
}


def run(tmp_path: Path, body: str) -> subprocess.CompletedProcess[str]:
    lines = body.splitlines()
    indent = len(lines[1]) - len(lines[1].lstrip())
    imports = "import atexit, mmap, os, socket, subprocess, sys, threading, time\nfrom pathlib import Path\n"
    (tmp_path / "test_leak.py").write_text(imports + "\n".join(line[indent:] for line in lines))
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["support.home", "support.guard"]\n')
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {TESTS}\nleave_seconds = 0.5\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=45)


@pytest.fixture(scope="module")
def leaky(tmp_path_factory: pytest.TempPathFactory) -> str:
    ran = run(tmp_path_factory.mktemp("leaky"), LEAKS)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert f"{len(NAMED)} passed, {len(NAMED)} errors" in ran.stdout
    return ran.stdout


@pytest.mark.parametrize("leak", NAMED)
def test_a_test_that_leaves_something_behind_fails(leak: str, leaky: str) -> None:
    section = leaky.split(f"ERROR at teardown of test_{leak} ")[1].split("ERROR at teardown")[0]
    assert "left behind by this test" in section
    assert f"  {NAMED[leak]}" in section


def test_a_test_that_cleans_up_passes(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        """
        def test_it(home):
            child = subprocess.Popen(["sleep", "60"])
            child.kill()
            thread = threading.Thread(target=time.sleep, args=(0.2,))
            thread.start()
            with socket.socket() as server:
                server.bind(("127.0.0.1", 0))
                server.listen()
            assert Path(os.environ["HOME"]) == home
        """,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_what_was_left_is_ended_and_the_home_removed(tmp_path: Path) -> None:
    ran = run(
        tmp_path,
        """
        def test_leaves(home):
            child = subprocess.Popen(["sleep", "61"])
            Path("left").write_text(f"{child.pid} {home}")

        def test_the_next_one_finds_it_gone():
            pid, home = Path("left").read_text().split()
            state = Path(f"/proc/{pid}/stat")
            assert not state.exists() or state.read_text().split()[2] == "Z"
            assert not Path(home).exists()
        """,
    )
    assert "2 passed, 1 error" in ran.stdout, ran.stdout
