"""Libraries that write to the terminal by themselves are asked not to."""

from __future__ import annotations

import os


def quiet_grpc() -> None:
    """Keep gRPC's C core from writing to stderr: what it says comes back as errors of calls.

    It reads its environment when it is imported, so call this before. Fork handlers are switched off too: a process
    of ours that uses gRPC starts children by exec alone.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
