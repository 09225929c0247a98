import pytest
import sqlalchemy as sa

from convoy.brain.ingest.prometheus.address import Address
from convoy.brain.ingest.prometheus.client import Prometheus
from convoy.brain.ingest.prometheus.collect import Collector, Tally
from convoy.brain.ingest.prometheus.grid import Span
from convoy.brain.ingest.prometheus.queries import load
from convoy.brain.ingest.prometheus.rows import ended_at
from convoy.brain.store.engine import reading, writing
from convoy.brain.store.tables import Job, JobNode
from support.openmetrics import BEGIN

STEP = 30


class Stage:
    """A Prometheus, a database, and what collecting from the one into the other said."""

    def __init__(self, url, engine, queries=None, cluster="lab"):
        self.prometheus = Prometheus(Address(url))
        self.engine = engine
        self.queries = queries or load()
        self.findings = []
        self.collector = Collector(
            self.prometheus,
            engine,
            self.queries,
            cluster,
            lambda finding, came: self.findings.append((finding, came)),
        )

    def collect(self, since, until, step=STEP):
        """Collect from and to these seconds since BEGIN."""
        tally = Tally()
        for _ in self.collector.collect(Span.within(BEGIN + since, BEGIN + until, step), tally):
            pass
        return tally

    def rows(self, table):
        with reading(self.engine) as connection:
            return connection.execute(sa.select(table.__table__).order_by(*table.__table__.primary_key)).all()

    def by_second(self, table, column):
        """Return a column by seconds since BEGIN."""
        return {int(row.ended_at.timestamp()) - BEGIN: getattr(row, column) for row in self.rows(table)}


@pytest.fixture
def staged(engine):
    """Return what makes a stage on a Prometheus, given its URL."""
    stages = []

    def make(url, **options):
        stages.append(Stage(url, engine, **options))
        return stages[-1]

    yield make
    for stage in stages:
        stage.prometheus.close()


@pytest.fixture
def job_of(engine):
    """Return what makes a job with pods in the store, and gives its number."""

    def make(uid, pods, *, namespace="team", cluster="lab", since=0, **pod):
        described = dict.fromkeys(("template", "image", "user", "strategy", "model", "node_type"), "")
        seen = {"first_seen": ended_at(BEGIN + since), "last_seen": ended_at(BEGIN + since)}
        with writing(engine) as connection:
            connection.execute(
                sa.insert(Job),
                [
                    {
                        "uid": uid,
                        "name": uid,
                        "namespace": namespace,
                        "cluster": cluster,
                        "state": "",
                        **described,
                        **seen,
                    }
                ],
            )
            number = connection.execute(sa.select(Job.id).where(Job.uid == uid)).scalar_one()
            rows = [
                {"job_id": number, "name": name, "role": "worker", "rank": rank, **pod}
                for rank, name in enumerate(pods)
            ]
            connection.execute(sa.insert(JobNode), rows)
        return number

    return make
