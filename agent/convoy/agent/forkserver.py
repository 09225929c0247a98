"""The process that has imported torch already and forks the workers: a restart costs a fork, not an import.

The agent starts it first and talks with it over a socket pair: messages are 4 bytes of length (big endian) and JSON;
the pipes for a worker's output come with its ``start`` message as descriptors.

- to it: ``start`` {id, kind, script, arguments, env, cwd, streams: [fd numbers that follow]}, ``signal`` {id, signal}
- from it: ``ready`` {missing}, ``started`` {id, pid}, ``exited`` {id, pid, status} (negative: the signal)

A worker is a process group of its own and dies with this process, which ends, and kills the groups, when the agent's
end closes. It has one thread: what a fork copies is whole.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
from types import TracebackType
from typing import Any, NoReturn

from convoy.core.process.parent import at_parents_end

_HEAD = 4
_QUIET = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)


class Frames:
    """Cuts a stream into messages."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Take what came; return the messages that are whole now."""
        self._rest += data
        found = []
        while len(self._rest) >= _HEAD:
            end = _HEAD + int.from_bytes(self._rest[:_HEAD], "big")
            if len(self._rest) < end:
                break
            found.append(json.loads(self._rest[_HEAD:end]))
            self._rest = self._rest[end:]
        return found


def frame(message: dict[str, Any]) -> bytes:
    """Return a message as bytes."""
    body = json.dumps(message, separators=(",", ":")).encode()
    return len(body).to_bytes(_HEAD, "big") + body


class Server:
    """Forks workers, tells of their ends."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._frames = Frames()
        self._descriptors: list[int] = []
        self._pids: dict[int, int] = {}
        self._wake, wake = socket.socketpair()
        for end in (self._wake, wake):
            end.setblocking(False)
        self._wake_source = wake
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)

    def serve(self, missing: list[str]) -> None:
        """Answer the agent until it hangs up; then end all workers."""
        self._tell(event="ready", missing=missing)
        with selectors.DefaultSelector() as selector:
            selector.register(self._control, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                ready = {key.fileobj for key, _ in selector.select()}
                if self._wake in ready:
                    with contextlib.suppress(BlockingIOError):
                        self._wake.recv(4096)
                    self._reap()
                if self._control in ready and not self._read(selector):
                    break
        for pid in self._pids.values():
            _kill_group(pid, signal.SIGKILL)

    def _read(self, selector: selectors.BaseSelector) -> bool:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._control, 1 << 16, 16)
        except ConnectionResetError:  # the agent was killed before it had read all that it was told
            return False
        self._descriptors += descriptors
        for message in self._frames.feed(data):
            if message["op"] == "start":
                streams = [self._descriptors.pop(0) for _ in message["streams"]]
                self._start(message, dict(zip(message["streams"], streams, strict=True)), selector)
            elif message["op"] == "signal" and message["id"] in self._pids:
                _kill_group(self._pids[message["id"]], message["signal"])
        return bool(data)

    def _start(self, message: dict[str, Any], streams: dict[int, int], selector: selectors.BaseSelector) -> None:
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            with contextlib.suppress(BaseException):
                signal.set_wakeup_fd(-1)
                selector.close()
                for end in (self._control, self._wake, self._wake_source):
                    end.close()
                _become_worker(message, streams, server)
            os._exit(1)
        with contextlib.suppress(OSError):  # the child does the same: whoever comes first
            os.setpgid(pid, pid)
        for descriptor in streams.values():
            os.close(descriptor)
        self._pids[message["id"]] = pid
        self._tell(event="started", id=message["id"], pid=pid)

    def _reap(self) -> None:
        for number, pid in list(self._pids.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill_group(pid, signal.SIGKILL)  # what the worker left behind; before the pid can be another's
            _, status = os.waitpid(pid, 0)
            del self._pids[number]
            self._tell(event="exited", id=number, pid=pid, status=os.waitstatus_to_exitcode(status))

    def _tell(self, **message: Any) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.sendall(frame(message))


def _kill_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


def _become_worker(message: dict[str, Any], streams: dict[int, int], server: int) -> NoReturn:
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    at_parents_end(signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)
    for number in (*_QUIET, signal.SIGCHLD):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    for target, source in streams.items():
        os.dup2(source, target)
        os.close(source)
    os.environ.clear()
    os.environ.update(message["env"])
    try:
        os.chdir(message["cwd"])
        if message["kind"] == "program":
            os.execvpe(message["script"], [message["script"], *message["arguments"]], message["env"])
    except OSError as error:
        os.write(2, f"{message['script']}: {error}\n".encode())
        os._exit(127)
    status = _run_python(message["kind"], message["script"], message["arguments"])
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(status)


def _run_python(kind: str, script: str, arguments: list[str]) -> int:
    """Run a script as the interpreter would; return the exit status."""
    gc.unfreeze()
    gc.enable()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(line_buffering=True)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()  # a copy of the state would be the same in every worker
    sys.argv = [script, *arguments]
    try:
        if kind == "module":
            sys.path.insert(0, os.getcwd())
            runpy.run_module(script, run_name="__main__", alter_sys=True)
        else:
            sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 0xFF
        print(end.code, file=sys.stderr)  # noqa: T201
        return 1
    except BaseException as error:
        trace = _beyond_here(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _beyond_here(trace: TracebackType | None) -> TracebackType | None:
    """Leave the frames of this file and of runpy out of a traceback."""
    while trace is not None and trace.tb_next is not None:
        name = trace.tb_frame.f_code.co_filename
        if name != __file__ and "runpy" not in name:
            break
        trace = trace.tb_next
    return trace


def main() -> None:
    """Entry: descriptor of the socket, pid of the agent, modules to import."""
    descriptor, parent, *modules = sys.argv[1:]
    at_parents_end(signal.SIGKILL)  # until workers are to be ended first
    if os.getppid() != int(parent):
        return
    for number in _QUIET:  # the agent decides, also where a signal goes to all processes
        signal.signal(number, signal.SIG_IGN)
    missing = []
    for module in modules:
        try:
            importlib.import_module(module)
        except ModuleNotFoundError:
            missing.append(module)
        except Exception:
            traceback.print_exc()
            missing.append(module)
    gc.collect()
    gc.freeze()
    at_parents_end(0)
    Server(socket.socket(fileno=int(descriptor))).serve(missing)
