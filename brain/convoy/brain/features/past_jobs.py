"""The store's history as a set to back-test on."""

from __future__ import annotations

from sqlalchemy.engine import Engine

from convoy.brain.features.observations import history
from convoy.brain.models.backtest.data import DataSet, one_row_a_configuration
from convoy.core.api.errors import NotFound

NAME = "store"
LEAST_JOBS = 5
"""Jobs of two sizes or more that a back-test needs: fewer say nothing of jobs to come."""


def past_jobs(engine: Engine) -> DataSet:
    """Return all jobs of the store, one row a (job, configuration); split by time where rows are dated, and by job.

    Raises:
        NotFound: too few jobs ran at two sizes or more.
        Unavailable: the database can't be reached now.
    """
    rows = one_row_a_configuration(history(engine))
    sizes = rows.groupby("job").size() if len(rows) else None
    useful = 0 if sizes is None else int((sizes >= 2).sum())
    if useful < LEAST_JOBS:
        raise NotFound(
            f"the store knows {useful} jobs that ran at two sizes or more, and a back-test needs {LEAST_JOBS}; "
            "import history with `convoy brain import`, or name public data with --data"
        )
    return DataSet(NAME, rows.assign(group=rows["job"]), by_time=bool(rows["observed_at"].notna().any()))
