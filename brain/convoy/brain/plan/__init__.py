"""What is done with predictions: one job's plan, its guards and its explanation. Pure: no I/O, no clock."""

from convoy.brain.plan.answer import Decision, JobRecommendation, JobRequest, Option, Stage
from convoy.brain.plan.explore import next_configuration
from convoy.brain.plan.guards import Limits
from convoy.brain.plan.job import plan_job
from convoy.brain.plan.prices import Prices

__all__ = [
    "Decision",
    "JobRecommendation",
    "JobRequest",
    "Limits",
    "Option",
    "Prices",
    "Stage",
    "next_configuration",
    "plan_job",
]
