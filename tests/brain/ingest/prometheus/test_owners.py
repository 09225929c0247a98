from datetime import UTC, datetime, timedelta

from convoy.brain.ingest.prometheus.owners import Owner, owner_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def at(hours):
    return NOON + timedelta(hours=hours)


def owner(job, since, until=None, *, begun_before=False):
    until_at = None if until is None else at(until)
    return Owner(job, "worker", 0, None, None, at(since), begun_before=begun_before, until=until_at)


def of(candidates, hours):
    found = owner_of(candidates, at(hours))
    return found and found.job_id


def test_a_pod_is_of_the_job_that_began_last():
    jobs = [owner(1, 0), owner(2, 5)]
    assert [of(jobs, hours) for hours in (-1, 0, 4.9, 5, 9)] == [None, 1, 1, 2, 2]


def test_after_its_end_its_name_is_nobodys_until_another_job_has_it():
    jobs = [owner(1, 0, until=2), owner(2, 5)]
    assert [of(jobs, hours) for hours in (2, 3, 5)] == [1, None, 2]


def test_a_job_that_only_its_master_told_of_may_have_begun_before():
    assert of([owner(1, 0, begun_before=True), owner(2, 5)], -3) == 1
    assert of([owner(1, 0)], -3) is None


def test_an_unknown_pod_is_nobodys():
    assert owner_of([], NOON) is None
