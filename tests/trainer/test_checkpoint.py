"""Checkpoints: whole whatever kills the writer, without pickle."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from convoy.agent.spawner import Command, Spawner
from convoy.core.api.errors import CorruptState, InvalidInput, UnknownSchema, Unusable
from convoy.trainer import checkpoint
from convoy.trainer.checkpoint import Checkpoints
from support.launches import script

leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text())
states = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(st.text(max_size=5), inner, max_size=4),
        st.dictionaries(st.integers(), inner, max_size=4),
        st.dictionaries(st.tuples(st.integers(), st.text(max_size=2)), inner, max_size=3),
    ),
    max_leaves=20,
)


@given(states)
def test_what_isnt_a_tensor_comes_back_as_it_was(state: Any) -> None:
    plain, tensors = checkpoint.flatten(state)
    assert checkpoint.unflatten(json.loads(json.dumps(plain)), tensors) == state


def test_an_optimizers_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    model = torch.nn.Linear(4, 3).double()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, betas=(0.8, 0.9))
    model(torch.ones(2, 4, dtype=torch.float64)).sum().backward()
    optimizer.step()
    shared = torch.arange(6.0)
    odd = {
        "view": shared[2:4], "column": torch.ones(3, 4).t(), "empty": torch.empty(0, 2),
        "scalar": torch.tensor(3), "half": torch.ones(2, dtype=torch.bfloat16), "flags": torch.tensor([True, False]),
    }  # fmt: skip
    kept = Checkpoints(tmp_path)
    kept.save(5, {"optimizer": optimizer.state_dict(), "tied": [shared, shared], "odd": odd})
    found = kept.load(5)
    assert found["optimizer"]["param_groups"] == optimizer.state_dict()["param_groups"]
    for number, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            assert torch.equal(found["optimizer"]["state"][number][name], value)
    assert all(torch.equal(one, shared) for one in found["tied"])
    for name, tensor in odd.items():
        assert found["odd"][name].dtype == tensor.dtype
        assert torch.equal(found["odd"][name], tensor)
    torch.optim.Adam(model.parameters()).load_state_dict(found["optimizer"])
    assert checkpoint.parse(checkpoint.render({"a": (shared, 1)}))["a"][1] == 1


def test_what_cant_be_stored_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"optimizer\.extra\.1: a object can't be stored"):
        checkpoint.flatten({"optimizer": {"extra": [1, object()]}})


def test_the_last_ones_are_kept_and_an_abandoned_line_goes(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, keep=2)
    assert kept.latest() is None
    for step in (10, 20, 30):
        kept.save(step, {"step": step})
    assert (kept.steps(), kept.latest()) == ([20, 30], 30)
    kept.save(25, {"step": 25})  # training went back to 20 before
    assert (kept.steps(), kept.latest()) == ([20, 25], 25)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".safetensors") == [
        "step-0000000020.safetensors",
        "step-0000000025.safetensors",
    ]


def test_a_lost_pointer_and_torn_data_cost_one_checkpoint_at_most(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path, keep=3)
    for step in (1, 2, 3):
        kept.save(step, {"x": torch.full((10,), step)})
    (tmp_path / "latest.json").write_text("{")
    assert kept.latest() == 3
    with open(tmp_path / "step-0000000003.safetensors", "r+b") as file:
        file.truncate(20)
    assert kept.latest() == 2
    with pytest.raises(CorruptState, match="20 bytes"):
        kept.load(3)
    with pytest.raises(CorruptState, match="same checkpoint directory"):
        kept.load(9)


def test_data_of_the_right_size_that_is_garbage_is_told(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    kept.save(1, {"x": torch.ones(10)})
    data = tmp_path / "step-0000000001.safetensors"
    data.write_bytes(b"\xff" * data.stat().st_size)
    with pytest.raises(CorruptState, match="checksum differs"):
        kept.load(1)


def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = Checkpoints(tmp_path)
    for step in (1, 2):
        kept.save(step, {"weight": torch.full((3,), float(step))})
    data = tmp_path / "step-0000000002.safetensors"
    whole = bytearray(data.read_bytes())
    whole[-1] ^= 0xFF
    data.write_bytes(whole)
    found = kept.newest()
    assert found is not None
    assert found[0] == 1
    assert torch.equal(found[1]["weight"], torch.ones(3))
    assert "checkpoint of step 2 is passed over" in capsys.readouterr().err


def test_a_pointer_that_points_nowhere_is_as_good_as_lost(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    kept.save(1, {})
    for pointer in ("[]", '{"step": Infinity}', '{"step": -3}', "\0"):
        (tmp_path / "latest.json").write_text(pointer)
        assert kept.latest() == 1


def test_a_newer_versions_checkpoint_is_refused(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(1, {})
    path = tmp_path / "step-0000000001.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 99}))
    with pytest.raises(UnknownSchema, match="upgrade"):
        Checkpoints(tmp_path).load(1)


def test_a_directory_that_cant_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Unusable, match="checkpoint directory"):
        Checkpoints(tmp_path / "file" / "below").save(1, {})


WRITER = """
import sys
from pathlib import Path
import torch
from convoy.trainer.checkpoint import Checkpoints
kept = Checkpoints(Path(sys.argv[1]))
step = kept.latest() or 0
while True:
    step += 1
    kept.save(step, {"step": step, "x": torch.full((200_000,), step), "values": list(range(step, step + 100))})
"""


def whole(directory: Path) -> int:
    kept = Checkpoints(directory)
    step = kept.latest()
    assert step is not None
    state = kept.load(step)
    assert state["step"] == step
    assert state["values"][0] == step
    assert bool((state["x"] == step).all())
    return step


@pytest.mark.parametrize(
    ("point", "lost"),
    [("before-data", 1), ("before-manifest", 1), ("before-pointer", 1), ("before-cleaning", 0)],
)
def test_a_kill_between_two_files_leaves_a_whole_checkpoint(tmp_path: Path, point: str, lost: int) -> None:
    env = os.environ | {"CONVOY_CRASH_AT": f"trainer.checkpoint.{point}:3"}
    directory = tmp_path / "kept"
    done = subprocess.run([sys.executable, script(tmp_path, WRITER), directory], env=env, check=False)
    assert done.returncode == -signal.SIGKILL
    assert whole(directory) == 3 - lost


@pytest.mark.timeout(120)
def test_twenty_kills_at_random_moments_leave_whole_checkpoints(tmp_path: Path) -> None:
    """The writers are forks of a process that has imported torch, so that a kill costs no import."""
    directory, path = tmp_path / "kept", script(tmp_path, WRITER)
    chance = random.Random(0)

    async def scenario() -> None:
        spawner = Spawner(("torch", "convoy.trainer.checkpoint"), os.environ)
        try:
            spawner.attach()
            before = 0
            for _ in range(20):
                writer = await spawner.start(Command("path", str(path), (str(directory),), dict(os.environ), "/", {}))
                async with asyncio.timeout(20):
                    while (Checkpoints(directory).latest() or 0) <= before:
                        await asyncio.sleep(0.01)
                await asyncio.sleep(chance.uniform(0, 0.05))
                spawner.signal(writer, signal.SIGKILL)
                assert await asyncio.wait_for(writer.exited, 10) == -signal.SIGKILL
                before = whole(directory)
        finally:
            spawner.close()

    asyncio.run(scenario())
