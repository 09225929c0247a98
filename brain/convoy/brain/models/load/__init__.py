"""What workers and parameter servers use, of CPU and memory, at configurations that they haven't seen."""

from convoy.brain.models.load.model import LoadModel

__all__ = ["LoadModel"]
