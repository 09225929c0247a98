import pytest

from convoy.brain.features import frames
from convoy.core.api.errors import NotFound
from support.stored import Stored, at

OF_A_JOB = [frames.pod_load, frames.memory_usage, frames.plan_outcomes]


@pytest.mark.parametrize("frame", OF_A_JOB)
def test_an_unknown_uid_isnt_taken_for_a_job_without_measurements(engine, frame):
    Stored(engine).job("uid-1", name="digits")
    assert frame(engine, "uid-1").empty
    with pytest.raises(
        NotFound, match=r"^job_uid is 'uid-2': the Brain knows no job of that uid; .* \(SELECT uid, name FROM job\)"
    ) as e:
        frame(engine, "uid-2")
    assert e.value.reason == "UnknownJob"


@pytest.mark.parametrize("frame", OF_A_JOB)
def test_a_name_given_for_a_uid_leads_to_the_uids(engine, frame):
    stored = Stored(engine)
    for number in range(7):
        stored.job(f"uid-{number}", name="digits", first_seen=at(number))
    with pytest.raises(NotFound, match=r"the uids uid-6, uid-5, uid-4, uid-3, uid-2, the latest first$"):
        frame(engine, "digits")


def test_it_is_refused_at_once_where_chunks_are_asked_for(engine):
    for frame in (frames.pod_load, frames.memory_usage):
        with pytest.raises(NotFound):
            frame(engine, "uid-1", chunks=10)
