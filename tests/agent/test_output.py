"""A worker's output that can't be taken leaves nothing behind."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from convoy.agent.output import Outputs
from convoy.core.api.errors import Unusable
from support.waiting import until


def held() -> tuple[int, list[str]]:
    """Return how many descriptors are open, and the threads that copy output."""
    threads = [thread.name for thread in threading.enumerate() if thread.name.startswith("output-")]
    return len(os.listdir("/proc/self/fd")), threads


@pytest.mark.parametrize("spoilt", ["1", "1/stderr.log"])
def test_a_log_that_cant_be_made_leaves_no_pipe_and_no_thread(tmp_path: Path, spoilt: str) -> None:
    if spoilt == "1":
        (tmp_path / spoilt).write_text("a file where the rank's folder should be")
    else:
        (tmp_path / spoilt).mkdir(parents=True)  # a folder where its file should be
    before = held()
    with pytest.raises(Unusable, match=r"--log-dir: .*name a writable directory"):
        Outputs(1, redirects=2, tee=0, shown=False, prefix="", directory=tmp_path)
    until(lambda: held() == before, "the pump of stdout to end")
