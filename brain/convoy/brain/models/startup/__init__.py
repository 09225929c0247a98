"""Resources for a job that never ran, from what turned out right for others; with the baselines that it must beat."""

from convoy.brain.models.startup.baselines import AsAsked, DlroverRules, TemplateMedian
from convoy.brain.models.startup.model import StartupModel

__all__ = ["AsAsked", "DlroverRules", "StartupModel", "TemplateMedian"]
