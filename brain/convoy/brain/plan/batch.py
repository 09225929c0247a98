"""Larger batches, of a job that allows them: sizes with each batch that may be tried. Smaller ones aren't: what a
batch was raised for stays true as gradients get noisier with a job's age.

Speed alone always asks for more; so such sizes are to be weighed by goodput, and only where the noise of the job's
gradients is known: a speed model is never asked about them alone.
"""

from __future__ import annotations

from dataclasses import replace

from convoy.brain.plan.answer import JobRequest
from convoy.brain.plan.sizes import MOST_SIZES, Size, sizes_within

FACTOR = 2
MOST_BATCHES = 4


def batches(request: JobRequest) -> list[int]:
    """Return the larger batches (samples a step) that the job may train with, doubled each time."""
    limits = request.limits
    if "batch" not in request.adjustable or limits.global_batch <= 0:
        return []
    wanted = (limits.global_batch * FACTOR**power for power in range(1, MOST_BATCHES + 1))
    return [batch for batch in wanted if batch <= limits.max_batch]


def with_larger_batches(request: JobRequest) -> list[Size]:
    """Return sizes within the limits with each of those batches."""
    larger = batches(request)
    found: list[Size] = []
    for batch in larger:
        caps = sizes_within(
            replace(request.limits, global_batch=batch),
            request.processes_per_worker,
            served=request.served,
            present=request.current,
            at_most=MOST_SIZES // (len(larger) + 1),
        )
        found += [replace(size, batch=batch) for size in caps.sizes]
    return found
