"""The world of one round, and what a worker learns of it from its environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from convoy.agent.options import Options
from convoy.core.api import names

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Member:
    """A node of a world."""

    node_rank: int
    local_world: int
    first_rank: int
    host: str
    store_port: int


@dataclass(frozen=True)
class World:
    """The nodes of one round, in rank order; ``place`` is the position of this one."""

    round: int
    members: tuple[Member, ...]
    place: int

    @property
    def size(self) -> int:
        """Processes in it."""
        return sum(member.local_world for member in self.members)

    @property
    def own(self) -> Member:
        """This node."""
        return self.members[self.place]


def worker_environment(
    world: World,
    local_rank: int,
    options: Options,
    base: Mapping[str, str],
    *,
    socket: str,
    restarts: int,
    loaders: int | None = None,
) -> dict[str, str]:
    """Return a worker's environment: torchrun's variables, and ours."""
    first, own = world.members[0], world.own
    rank = own.first_rank + local_rank
    found = dict(base) | {
        "RANK": str(rank),
        "WORLD_SIZE": str(world.size),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(own.local_world),
        "GROUP_RANK": str(world.place),
        "GROUP_WORLD_SIZE": str(len(world.members)),
        "NODE_RANK": str(own.node_rank),
        "ROLE_NAME": options.role,
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(world.size),
        "MASTER_ADDR": first.host,
        "MASTER_PORT": str(first.store_port),
        "TORCHELASTIC_RUN_ID": options.run_id,
        "TORCHELASTIC_RESTART_COUNT": str(restarts),
        "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "CONVOY_ROUND": str(world.round),
        names.ENV_AGENT_SOCKET: socket,
    }
    if loaders is not None:
        found[names.ENV_LOADER_WORKERS] = str(loaders)
    if all(member.host in LOOPBACK for member in world.members):
        found.setdefault("GLOO_SOCKET_IFNAME", "lo")
        found.setdefault("NCCL_SOCKET_IFNAME", "lo")
    if options.virtual_local_rank:
        visible = [part for part in base.get("CUDA_VISIBLE_DEVICES", "").split(",") if part.strip()]
        found["LOCAL_RANK"] = "0"
        found["CUDA_VISIBLE_DEVICES"] = visible[local_rank] if local_rank < len(visible) else str(local_rank)
    return found


def base_environment(environment: Mapping[str, str], processes: int) -> dict[str, str]:
    """Return what every worker and the fork server get.

    Where several share a node each has one OpenMP thread, as with torchrun.
    """
    found = dict(environment)
    if processes > 1:
        found.setdefault("OMP_NUM_THREADS", "1")
    return found
