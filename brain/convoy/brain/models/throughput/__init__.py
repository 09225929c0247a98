"""Speed of training jobs, with all-reduce or parameter servers, at configurations that they haven't seen."""

from convoy.brain.models.throughput.explain import Explanation
from convoy.brain.models.throughput.model import ThroughputModel

__all__ = ["Explanation", "ThroughputModel"]
