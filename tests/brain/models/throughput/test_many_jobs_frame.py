"""A history read as a whole says of each job what the job's own rows say."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from convoy.brain.models.throughput.frame import (
    group_of,
    labels_of,
    observations_of,
    repeat_scatter,
    rows_by_job,
    usable_of,
)
from convoy.brain.models.throughput.history import jobs_of

ROW = st.fixed_dictionaries(
    {
        "job": st.sampled_from(["a", "b", "c", None]),
        "model": st.sampled_from(["ResNet-50", "imagenet", " ", None, np.nan]),
        "cluster": st.sampled_from(["east", "west ", None]),
        "workers": st.sampled_from([1, 2, 4, 0, np.nan]),
        "ps": st.sampled_from([0, 1, np.nan]),
        "batch_size": st.sampled_from([8.0, 16.0, np.nan]),
        "throughput": st.sampled_from([10.0, 11.0, 20.0, 0.0, np.nan]),
        "throughput_sd": st.sampled_from([0.1, np.nan]),
        "ps_cpu_used": st.sampled_from([0.5, np.nan]),
        "status": st.sampled_from(["ok", "failed", None]),
        "observed_at": st.sampled_from(["2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z", None]),
    }
)


@given(st.lists(ROW, min_size=1, max_size=20))
def test_jobs_are_what_their_rows_say(rows: list[dict[str, object]]) -> None:
    frame = pd.DataFrame(rows)
    names = frame["job"].astype(object).where(frame["job"].notna(), "")
    found = {job.name: job for job in jobs_of(frame, 48)}
    for name in names.unique():
        own = frame[names == name]
        alone = observations_of(own)
        if not len(alone):
            assert name not in found
            continue
        together = found.pop(name)
        assert together.labels == labels_of(own)
        assert together.observations.group == group_of(labels_of(own))
        assert together.scatter == repeat_scatter(usable_of(own))
        for field in ("log_speed", "variance", "sessions", "shown"):
            np.testing.assert_array_equal(getattr(together.observations, field), getattr(alone, field))
        np.testing.assert_array_equal(together.observations.configurations.features, alone.configurations.features)
    assert not found


def test_an_empty_history_has_no_jobs() -> None:
    assert jobs_of(pd.DataFrame(), 48) == []
    assert jobs_of(pd.DataFrame({"job": [], "workers": []}), 48) == []


def test_rows_stay_in_order() -> None:
    names, places = rows_by_job(np.array(["b", "a", "b", "a", "c"], dtype=object))
    assert names == ["b", "a", "c"]
    assert [rows.tolist() for rows in places] == [[0, 2], [1, 3], [4]]
