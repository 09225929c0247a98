import gzip

import numpy as np
import pandas as pd
import pytest

from convoy.brain.features.published.demand import PHILLY, hourly_use, philly_demand
from convoy.core.api.errors import InvalidInput

HEAD = "submitted,duration_seconds,gpus,virtual_cluster\n"


def write(folder, rows):
    with gzip.open(folder / PHILLY, "wt") as file:
        file.write(HEAD + "".join(f"{row}\n" for row in rows))
    return folder


def busy(days, first="2017-10-02"):
    """Twenty jobs a day, each one GPU for an hour from 12:00, in two virtual clusters."""
    moments = [pd.Timestamp(first) + pd.Timedelta(days=day, hours=12) for day in range(days)]
    return [f"{moment},3600,1,{'a' if place % 2 else 'b'}" for moment in moments for place in range(20)]


def test_a_job_counts_for_the_part_of_each_hour_in_which_it_ran():
    times = pd.date_range("2017-10-02", periods=4, freq="h")
    begins = pd.Series(pd.to_datetime(["2017-10-01 20:00", "2017-10-02 00:45", "2017-10-02 03:30"]))
    used = hourly_use(begins, pd.Series([14400.0 + 900, 3600.0, 1e6]), pd.Series([4, 2, 8]), times)
    assert used.tolist() == pytest.approx([4 / 4 + 2 / 4, 2 * 0.75, 0.0, 4.0])


def test_the_series_begins_when_the_cluster_has_filled_and_ends_before_the_last_submission(tmp_path):
    early = ["2017-09-01 00:00:00,60,1,a", "2017-09-20 00:00:00,60,1,b"]
    frame = philly_demand(write(tmp_path, [*early, *busy(20)]))
    assert list(frame.columns) == ["time", "resource", "used"]
    assert frame["time"].iloc[0] == pd.Timestamp("2017-10-09")
    assert frame["time"].iloc[-1] == pd.Timestamp("2017-10-21 11:00")
    assert (frame["time"].diff().dropna() == pd.Timedelta(hours=1)).all()
    assert frame.loc[frame["time"].dt.hour == 12, "used"].tolist() == [20.0] * 12
    assert frame["used"].sum() == pytest.approx(240.0)
    assert len(philly_demand(tmp_path, warm_up=pd.Timedelta(days=2))) == len(frame) + 5 * 24


def test_virtual_clusters_add_up_to_the_whole(tmp_path):
    write(tmp_path, busy(20))
    apart, whole = philly_demand(tmp_path, by_virtual_cluster=True), philly_demand(tmp_path)
    assert set(apart["cluster"]) == {"a", "b"}
    assert np.allclose(apart.groupby("time")["used"].sum(), whole["used"])


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["soon,60,1,a", *busy(20)], "row 0"),
        ([*busy(20), "2017-10-05,-60,1,a"], "row 400"),
        ([*busy(20), "2017-10-05,60,,a"], "row 400"),
        (busy(5), "no whole hour after a warm-up of 7 days"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(tmp_path, rows, words):
    with pytest.raises(InvalidInput, match=words) as caught:
        philly_demand(write(tmp_path, rows))
    assert PHILLY in str(caught.value)


def test_a_folder_without_the_trace(tmp_path):
    with pytest.raises(InvalidInput, match=r"philly_jobs\.csv\.gz"):
        philly_demand(tmp_path)
