"""From the store to pandas: the frames that models and notebooks read. ``docs/frames.md`` lists their columns."""

from __future__ import annotations

from convoy.brain.features.gradients import GRADIENT_NOISE, gradient_noise
from convoy.brain.features.layout import Layout
from convoy.brain.features.loading import LOADER_WAIT, loader_wait
from convoy.brain.features.machine_load import MACHINE_LOAD, machine_load
from convoy.brain.features.memory import MEMORY_USAGE, memory_usage
from convoy.brain.features.observations import OBSERVATIONS, history, is_over, observed
from convoy.brain.features.outcomes import PLAN_OUTCOMES, plan_outcomes
from convoy.brain.features.pod_load import POD_LOAD, pod_load
from convoy.brain.features.startup import STARTUP_JOBS, startup_jobs
from convoy.brain.features.utilization import CLUSTER_HOURS, MACHINE_HOURS, cluster_hours, machine_hours

__all__ = [
    "LAYOUTS",
    "cluster_hours",
    "gradient_noise",
    "history",
    "is_over",
    "loader_wait",
    "machine_hours",
    "machine_load",
    "memory_usage",
    "observed",
    "plan_outcomes",
    "pod_load",
    "startup_jobs",
]

LAYOUTS: tuple[Layout, ...] = (
    OBSERVATIONS,
    POD_LOAD,
    MACHINE_LOAD,
    MACHINE_HOURS,
    CLUSTER_HOURS,
    MEMORY_USAGE,
    PLAN_OUTCOMES,
    STARTUP_JOBS,
    GRADIENT_NOISE,
    LOADER_WAIT,
)
"""What each function returns."""
