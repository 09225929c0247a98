"""What is done with predictions: one job's plan, its guards and its explanation. Pure: no I/O, no clock."""

from convoy.brain.plan.answer import (
    ADJUSTABLE,
    Decision,
    JobRecommendation,
    JobRequest,
    Loaders,
    Objective,
    Option,
    RoleAdvice,
    Stage,
)
from convoy.brain.plan.explore import next_configuration
from convoy.brain.plan.job import plan_job
from convoy.brain.plan.limits import Limits
from convoy.brain.plan.loaders import with_loaders
from convoy.brain.plan.needs import Needs
from convoy.brain.plan.prices import Prices
from convoy.brain.plan.sizes import Size

__all__ = [
    "ADJUSTABLE",
    "Decision",
    "JobRecommendation",
    "JobRequest",
    "Limits",
    "Loaders",
    "Needs",
    "Objective",
    "Option",
    "Prices",
    "RoleAdvice",
    "Size",
    "Stage",
    "next_configuration",
    "plan_job",
    "with_loaders",
]
