"""The store's tables, typed. The migrations in ``sql/`` make them; a test compares the two.

Units: seconds, samples/s, cores, bytes; moments are UTC. NULL is "not known". ``origin`` tells measurements of our
own jobs ("measured") from history that somebody imported ("imported"); both count alike, and each has a retention of
its own. A row that two reports carry is one row: the keys say what makes two measurements the same.

    cluster ── node ── node_event                what there is
      job ── job_attempt, job_node, job_event, job_feature, reporter
      job ── recommendation ── scale_plan        what was said, and what came of it
    training_speed, job_node_load, node_load     series by day, without foreign keys; each with _1m and _1h
    history_observation                          imported
    model_version, optimization_run              what was learned, and when it was acted on
"""

from __future__ import annotations

from convoy.brain.store.tables.advice import ModelVersion, OptimizationRun, Recommendation, ScalePlan
from convoy.brain.store.tables.base import IMPORTED, MEASURED, Base
from convoy.brain.store.tables.cluster import Cluster, Node, NodeEvent
from convoy.brain.store.tables.history import HistoryObservation
from convoy.brain.store.tables.jobs import Job, JobAttempt, JobEvent, JobFeature, JobNode, Reporter
from convoy.brain.store.tables.rollups import (
    JobNodeLoad1h,
    JobNodeLoad1m,
    NodeLoad1h,
    NodeLoad1m,
    RollupDue,
    SeriesKept,
    TrainingSpeed1h,
    TrainingSpeed1m,
)
from convoy.brain.store.tables.series import AGENT, PROMETHEUS, JobNodeLoad, NodeLoad, TrainingSpeed

__all__ = [
    "AGENT",
    "IMPORTED",
    "MEASURED",
    "PROMETHEUS",
    "Base",
    "Cluster",
    "HistoryObservation",
    "Job",
    "JobAttempt",
    "JobEvent",
    "JobFeature",
    "JobNode",
    "JobNodeLoad",
    "JobNodeLoad1h",
    "JobNodeLoad1m",
    "ModelVersion",
    "Node",
    "NodeEvent",
    "NodeLoad",
    "NodeLoad1h",
    "NodeLoad1m",
    "OptimizationRun",
    "Recommendation",
    "Reporter",
    "RollupDue",
    "ScalePlan",
    "SeriesKept",
    "TrainingSpeed",
    "TrainingSpeed1h",
    "TrainingSpeed1m",
]
