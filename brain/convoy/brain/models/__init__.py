"""What is learned from history: how fast a job would run at sizes that it hasn't seen. Pure: no I/O, no clock."""

from convoy.brain.models.throughput import ThroughputModel

__all__ = ["ThroughputModel"]
