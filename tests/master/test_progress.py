"""How far a job has come stands on its status, with when it will be done, and isn't written with every step."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from convoy.core.api.job import ElasticJob
from convoy.core.api.job_status import TrainingStatus
from convoy.core.api.meta import Manifest, validate
from convoy.core.cluster.local import open_cluster
from convoy.core.cluster.port import Kind
from convoy.master import describe, status
from convoy.master.conductor import Conductor
from convoy.master.decide.policy import Policy
from convoy.master.decide.state import JobState, Live, RoundState, State, Window
from convoy.master.scribe import Scribe
from support.clock import FakeClock
from support.manifests import job as job_manifest

NOW = 1_767_225_600.0  # 2026-01-01T00:00:00Z
WINDOW = Window(NOW, 10.0, 0, 9, 1_000.0, nodes=2, workers=2, batch=100, round=1, warming=False)


def training(step: int, *windows: Window, **annotations: str) -> dict[str, Any]:
    """Return the status of a training that has come to a step, as its schema has it."""
    asked = {f"convoy/{name.replace('_', '-')}": value for name, value in annotations.items()}
    job = ElasticJob.from_manifest(job_manifest(metadata__annotations=asked))
    state = State(describe.facts(job, brain=False), live=Live(step=step, windows=windows))
    round_ = replace(state.job.round, number=1, state=RoundState.ACTIVE)
    found = status.training(replace(state, job=replace(state.job, round=round_)), NOW, Policy())
    return validate(TrainingStatus, found).to_json()


def test_progress_and_its_end_follow_from_what_is_left_and_the_present_speed() -> None:
    found = training(99, WINDOW, total_samples="40000")
    assert found["progress"] == 0.25
    assert found["estimatedCompletionTime"] == "2026-01-01T00:05:00Z"  # 30,000 samples at 100 a second


def test_the_end_is_told_to_the_minute_so_that_it_rests() -> None:
    assert training(100, WINDOW, total_samples="40000")["estimatedCompletionTime"] == "2026-01-01T00:04:00Z"
    assert training(101, WINDOW, total_samples="40000")["estimatedCompletionTime"] == "2026-01-01T00:04:00Z"


@pytest.mark.parametrize(
    ("step", "windows", "annotations", "expected"),
    [
        (99, [WINDOW], {}, (None, None)),
        (99, [], {"total_samples": "40000"}, (None, None)),
        (99, [replace(WINDOW, round=0)], {"total_samples": "40000"}, (0.25, None)),
        (399, [WINDOW], {"total_samples": "40000"}, (1.0, None)),
        (5_000, [WINDOW], {"total_samples": "40000"}, (1.0, None)),
        (-1, [WINDOW], {"total_samples": "40000"}, (0.0, "2026-01-01T00:06:00Z")),
        (0, [WINDOW], {"total_samples": "1e300"}, (0.0, None)),
        (0, [WINDOW], {"total_samples": "many"}, (None, None)),
    ],
)
def test_what_is_not_known_is_absent(step: int, windows: list[Window], annotations: Any, expected: Any) -> None:
    found = training(step, *windows, **annotations)
    assert (found.get("progress"), found.get("estimatedCompletionTime")) == expected


class Disk:
    def load(self, kind: str) -> None:
        return None

    def save(self, kind: str, document: Any) -> None:
        """Everything fits."""


def test_mere_progress_is_written_once_in_a_while_and_all_else_at_once(state_dir: Path) -> None:
    clock = FakeClock()

    async def play() -> list[int]:
        written = []
        with open_cluster(state_dir) as cluster, ThreadPoolExecutor(1) as threads:
            job = ElasticJob.from_manifest(cluster.create(job_manifest(), field_manager="convoy-cli"))
            state = State(describe.facts(job, brain=False), JobState(epoch=1), Live(started_at=clock.now()))
            conductor = Conductor(state, Policy(), Disk(), threads, clock)
            scribe = Scribe(cluster, conductor, "m-0", job.owner_reference(), None, lambda: None, progress_every=30.0)
            last: Manifest | None = None
            for step, seconds, restarts in ((1, 0, 0), (2, 1, 0), (3, 1, 1), (4, 10, 1), (5, 25, 1), (6, 29, 1)):
                clock.advance(seconds)
                before = conductor.state
                conductor.state = replace(
                    before, live=replace(before.live, step=step), job=replace(before.job, restarts=restarts)
                )
                last = await scribe._put_status(last)
                stored = cluster.get(Kind.ELASTIC_JOB, "default", "job")["status"]["training"]
                written.append(stored["step"])
            scribe.close()
        return written

    assert asyncio.run(play()) == [1, 1, 3, 3, 5, 5]
