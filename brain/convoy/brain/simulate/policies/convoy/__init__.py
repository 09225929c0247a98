"""Convoy in the simulated cluster: the plan of a whole cluster, on predicted speeds or on the true ones."""

from convoy.brain.simulate.policies.convoy.others import Others
from convoy.brain.simulate.policies.convoy.policy import build, build_oracle

__all__ = ["Others", "build", "build_oracle"]
