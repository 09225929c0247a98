"""Demand for a cluster's resources, by the hour, one and two weeks ahead; with the baseline that it must beat."""

from convoy.brain.models.demand.model import DemandModel, SeasonalNaive

__all__ = ["DemandModel", "SeasonalNaive"]
