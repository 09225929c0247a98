"""Where a training process stands: its rank, its world, its job's directory, from the launcher's environment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from convoy.core.api import names
from convoy.core.api.errors import InvalidSetting


@dataclass(frozen=True)
class Place:
    """One process of a world; by default the only one, as when a script is run by itself.

    Attributes:
        launched: whether a launcher (ours or torchrun) named the world.
        round: the rendezvous round that the world was made in, 0 without an agent.
        job_dir: directory that all processes of the job share, None where there is none.
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    local_world: int = 1
    node_rank: int = 0
    launched: bool = False
    round: int = 0
    pod: str = "local"
    job_dir: Path | None = None
    agent_socket: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Place:
        """Read the launcher's variables.

        Raises:
            InvalidSetting: a rank isn't a whole number, or isn't within its world.
        """
        launched = "RANK" in environment and "WORLD_SIZE" in environment and "MASTER_ADDR" in environment
        rank = _whole(environment, "RANK", 0) if launched else 0
        world = _whole(environment, "WORLD_SIZE", 1) if launched else 1
        if rank >= world:
            raise InvalidSetting(f"RANK={rank} isn't within WORLD_SIZE={world}; expected 0 to {world - 1}")
        job_dir = environment.get(names.ENV_JOB_DIR)
        return cls(
            rank=rank,
            world=world,
            local_rank=_whole(environment, "LOCAL_RANK", 0) if launched else 0,
            local_world=_whole(environment, "LOCAL_WORLD_SIZE", 1) if launched else 1,
            node_rank=_whole(environment, "GROUP_RANK", 0) if launched else 0,
            launched=launched,
            round=_whole(environment, "CONVOY_ROUND", 0),
            pod=environment.get(names.ENV_POD_NAME) or "local",
            job_dir=Path(job_dir) if job_dir else None,
            agent_socket=environment.get(names.ENV_AGENT_SOCKET) or None,
        )

    @property
    def nodes(self) -> int:
        """Nodes of the world, supposing that all have as many processes as this one."""
        return max(1, round(self.world / self.local_world))


def _whole(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isascii() or not text.isdigit():
        raise InvalidSetting(f"{name}={text!r}: expected a whole number of 0 or more; the launcher sets it")
    return int(text)
