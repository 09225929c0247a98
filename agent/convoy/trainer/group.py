"""The process group that a training process is in, and what it says when another member is gone."""

from __future__ import annotations

import ctypes
import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore

from convoy.core.api.errors import InvalidSetting
from convoy.trainer.place import Place

_SIGNS = (
    "connection closed by peer",
    "connection reset",
    "connection refused",
    "broken pipe",
    "socket closed",
    "timed out waiting",
    "wait timeout",
    "remote process exited",
    "remote error",
    "unhandled system error",
    "ncclremoteerror",
    "ncclsystemerror",
    "connect() timed out",
    "failed to connect",
    "connectfullmesh failed",
    "the client socket has",
    "unable to read from the server",
)


def is_peer_lost(error: BaseException) -> bool:
    """Whether an error says that another process of the group is gone, rather than that this one did wrong."""
    while error is not None:
        if isinstance(error, dist.DistNetworkError | dist.DistStoreError):
            return True
        if isinstance(error, dist.DistBackendError | RuntimeError):
            text = str(error).lower()
            if "out of memory" not in text and any(sign in text for sign in _SIGNS):
                return True
        if error.__cause__ is None:
            return False
        error = error.__cause__
    return False


def device_of(place: Place) -> torch.device:
    """Return the process's CUDA device if it has one (no two share one), else the CPU."""
    if torch.cuda.is_available() and torch.cuda.device_count() >= place.local_world:
        return torch.device("cuda", place.local_rank)
    return torch.device("cpu")


def join(place: Place, device: torch.device, timeout: float) -> bool:
    """Make or join the process group; False where the script has made one itself.

    A script run by itself gets a group of one, so that it has only one form.

    Raises:
        InvalidSetting: the script made a group of another size.
    """
    if dist.is_initialized():
        if dist.get_world_size() != place.world:
            raise InvalidSetting(
                f"the script's process group has {dist.get_world_size()} members, the launcher named {place.world}; "
                "call init_process_group with the default group, or leave it to ElasticTrainer"
            )
        return False
    backend = "nccl" if device.type == "cuda" else "gloo"
    if device.type == "cuda":
        torch.cuda.set_device(device)
    wait = timedelta(seconds=timeout)
    if not place.launched:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group(backend, store=HashStore(), rank=0, world_size=1, timeout=wait)
    else:
        dist.init_process_group(backend, rank=place.rank, world_size=place.world, timeout=wait)
    _keep_for_ever(dist.group.WORLD)
    return True


def _keep_for_ever(group: object) -> None:
    """Keep the group's destructor from running in this process.

    It joins a thread that may wait for the interpreter's lock, which the destructor's caller holds: a process could
    hang for ever when it ends. The kernel cleans up as well.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(group))


def add(values: list[float], device: torch.device) -> list[float]:
    """Add up values over all processes; float64, so that counts stay exact."""
    total = torch.tensor(values, dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return [float(value) for value in total.tolist()]


def announce(value: int, device: torch.device) -> int:
    """Return process rank 0's value everywhere."""
    told = torch.tensor([value], dtype=torch.int64, device=device)
    dist.broadcast(told, src=0)
    return int(told.item())


def gather(data: bytes, device: torch.device) -> list[bytes]:
    """Return every process's bytes, by rank."""
    world = dist.get_world_size()
    size = torch.tensor([len(data)], dtype=torch.int64, device=device)
    sizes = [torch.zeros_like(size) for _ in range(world)]
    dist.all_gather(sizes, size)
    longest = int(max(item.item() for item in sizes))
    mine = torch.zeros(longest, dtype=torch.uint8)
    mine[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    parts = [torch.zeros(longest, dtype=torch.uint8, device=device) for _ in range(world)]
    dist.all_gather(parts, mine.to(device))
    return [bytes(part.cpu().numpy()[: int(size.item())]) for part, size in zip(parts, sizes, strict=True)]
