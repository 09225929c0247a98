"""A node finds its own address, also where the master's name is known a little later only."""

from __future__ import annotations

import asyncio
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from convoy.agent.address import find_own_address
from convoy.core.api.errors import Unavailable
from support.launches import launch, script


def test_a_name_that_is_known_a_little_later_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve, tries = socket.getaddrinfo, []

    def slow(host: str, *rest: Any, **more: Any) -> Any:
        tries.append(host)
        if len(tries) < 3:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        return resolve("127.0.0.1", *rest, **more)

    monkeypatch.setattr("convoy.agent.address.socket.getaddrinfo", slow)
    assert asyncio.run(find_own_address("master.svc:50001", 30)) == "127.0.0.1"
    assert tries == ["master.svc"] * 3


def test_the_wait_for_a_name_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("convoy.agent.address.socket.getaddrinfo", never)
    begin = time.monotonic()
    with pytest.raises(Unavailable, match=r"master\.svc:50001: Name or service not known; correct"):
        asyncio.run(find_own_address("master.svc:50001", 1))
    assert 1 <= time.monotonic() - begin < 5


def test_an_unknown_master_isnt_taken_for_a_wrong_flag(tmp_path: Path) -> None:
    ended = launch(
        "--nnodes=2", "--rdzv-conf=join_timeout=1", "--start-method=spawn", script(tmp_path, ""),
        env={"DLROVER_MASTER_ADDR": "master.invalid:50001"},
    )  # fmt: skip
    assert ended.status == 1, "2 would have the master give the job up"
    assert len(ended.err.splitlines()) == 1
    assert "master.invalid:50001" in ended.err
