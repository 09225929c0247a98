"""What an agent measures and hears: load of a process tree, a worker's messages, a port that stays free."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.agent import messages
from convoy.agent.channel import Channel
from convoy.agent.load import LoadMeter, allotted
from convoy.agent.ports import Reservation
from convoy.core.api.errors import Unusable
from convoy.core.api.resources import Room
from convoy.trainer.link import Link

BURN = "import time\nheld = bytearray(100 * 2**20)\nend = time.time() + 30\nwhile time.time() < end: pass"


def test_load_is_that_of_the_whole_tree() -> None:
    with subprocess.Popen([sys.executable, "-c", BURN]) as child:
        try:
            meter = LoadMeter(os.getpid())
            time.sleep(1.5)
            load = meter.measure()
        finally:
            child.kill()
    assert load.seconds == pytest.approx(1.5, abs=0.5)
    assert 0.05 < load.cores < 2.5
    assert load.memory > 100 * 2**20
    later = meter.measure()
    assert later.memory < load.memory - 90 * 2**20
    assert later.cores >= 0


def test_what_the_pod_requests_is_what_a_node_is_allotted() -> None:
    assert allotted({"CONVOY_WORKER_CPU": "1.5", "CONVOY_WORKER_MEMORY": str(1 << 30)}) == Room(1.5, 1 << 30)
    assert allotted({}) == Room()
    assert allotted({"CONVOY_WORKER_CPU": "many"}) == Room()


def test_a_channel_is_private_heeds_its_workers_and_goes() -> None:
    async def scenario() -> None:
        heard: list[tuple[int, dict[str, Any]]] = []
        channel = Channel(lambda pid, message: heard.append((pid, message)))
        await channel.open()
        path = Path(channel.path)
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        stranger = socket.socket(socket.AF_UNIX)
        stranger.connect(channel.path)
        stranger.sendall(b'{"type": "step", "step": 9}\nnonsense\n[1]\n')
        link = await asyncio.to_thread(Link, channel.path, 0)
        link.tell("step", step=4)
        async with asyncio.timeout(5):
            while len(heard) < 2:
                await asyncio.sleep(0.01)
        assert [(pid, message["type"]) for pid, message in heard] == [(os.getpid(), "hello"), (os.getpid(), "step")]
        assert channel.tell(os.getpid(), "yield", round=7)
        assert not channel.tell(1, "yield", round=7)
        async with asyncio.timeout(5):
            while link.yield_round != 7:
                link.listen()
                await asyncio.sleep(0.01)
        stranger.close()
        link.close()
        await channel.close()
        assert not path.parent.exists()

    asyncio.run(scenario())


def test_a_worker_whose_agent_doesnt_read_goes_on_and_its_last_word_arrives(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "agent"))
        server.listen()
        link = Link(str(tmp_path / "agent"), 0)
        end, _ = server.accept()
        begin = time.monotonic()
        for step in range(20_000):
            link.tell("step", step=step)
        assert time.monotonic() - begin < 5
        end.settimeout(5)
        lines, data = messages.Lines(), b""
        received = lines.feed(end.recv(1 << 20))
        link.tell_surely("yielded", step=20_000)
        while not received or messages.decode(received[-1]) != {"type": "yielded", "step": 20_000}:
            data = end.recv(1 << 20)
            received += lines.feed(data)
        assert all(messages.decode(line) is not None for line in received)
        end.close()
        link.close()


def test_without_an_agent_a_worker_speaks_to_nobody(tmp_path: Path) -> None:
    for path in (None, str(tmp_path / "absent")):
        link = Link(path, 0)
        link.tell("step", step=1)
        link.listen()
        assert link.yield_round == 0


@given(st.lists(st.text()), st.integers(1, 7))
def test_lines_come_out_as_they_went_in(texts: list[str], size: int) -> None:
    data = b"".join(messages.encode("word", text=text) for text in texts)
    lines = messages.Lines()
    found = [line for at in range(0, len(data), size) for line in lines.feed(data[at : at + size])]
    assert [messages.decode(line) for line in found] == [{"type": "word", "text": text} for text in texts]


def test_a_reserved_port_is_nobody_elses_but_the_stores() -> None:
    with Reservation() as reservation:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("", reservation.number))
        from torch._C._distributed_c10d import TCPStore

        store = TCPStore("127.0.0.1", reservation.number, 1, is_master=True, wait_for_workers=False)
        store.set("key", "value")
        assert store.get("key") == b"value"
        with pytest.raises(Unusable, match=f"--master-port={reservation.number}"):
            Reservation(reservation.number)
        del store
