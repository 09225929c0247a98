from convoy.brain.ingest.prometheus.outages import Outages
from convoy.core.api.errors import Unavailable

PROMETHEUS = Unavailable("away", reason="PrometheusUnreachable")
DATABASE = Unavailable("away", reason="DatabaseUnreachable")


def test_an_outage_is_told_once_and_its_end_once_with_its_length():
    outages = Outages()
    assert outages.failed(PROMETHEUS, 10.0) == "Prometheus"
    assert outages.failed(PROMETHEUS, 11.0) is None
    assert outages.failed(DATABASE, 15.0) == "the database"
    assert outages.over(20.0) == {"Prometheus": 10.0, "the database": 5.0}
    assert outages.over(21.0) == {}
    assert outages.failed(PROMETHEUS, 30.0) == "Prometheus"


def test_pauses_grow_to_a_bound():
    outages, pauses = Outages(), []
    for _ in range(2000):
        outages.failed(PROMETHEUS, 0.0)
        pauses.append(outages.pause())
    assert pauses[:6] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert max(pauses) == 30.0
    outages.over(1.0)
    outages.failed(PROMETHEUS, 2.0)
    assert outages.pause() == 1.0
