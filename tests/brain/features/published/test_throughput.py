"""Public measurements of speed as frames: columns, units, what is one job, what is left out together."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from convoy.brain.features.published.throughput import (
    data_sets,
    read_c3o,
    read_cmdare_ps,
    read_dl2_ps,
    read_published,
    read_sia_allreduce,
)
from convoy.core.api.errors import InvalidInput
from support.made_measurements import GLOBAL_BATCH, dl2_rows, sia_rows, write_measurements

DATA = Path(os.environ.get("CONVOY_DATA", Path(__file__).parents[5] / "shared" / "data"))


def test_parameter_server_jobs_have_a_fixed_global_batch(tmp_path: Path) -> None:
    frame = read_dl2_ps(write_measurements(tmp_path) / "dl2_ps")
    raw = dl2_rows()
    assert len(frame) == len(raw)
    assert np.allclose(frame["batch_size"] * frame["workers"], GLOBAL_BATCH)
    assert set(frame["strategy"]) == {"ps"}
    assert set(frame["mode"]) == {"sync"}
    assert (frame[["ps_cpu", "worker_cpu"]] == 2.0).all(axis=None)
    assert frame["ps_cpu_used_max"].iloc[5] == pytest.approx(raw["ps_cpu_max"].iloc[5])
    assert frame["status"].iloc[0] == "failed"
    assert (frame["status"].iloc[1:] == "ok").all()


def test_a_model_is_left_out_under_all_its_names(tmp_path: Path) -> None:
    found = read_published(write_measurements(tmp_path)).frames
    ps = found["dl2_ps"].set_index("job")["group"]
    sia = found["sia_allreduce"].set_index("job")["group"]
    assert set(ps["ResNet-50"]) == set(sia["imagenet-aws"]) == {"resnet50"}


def test_all_reduce_jobs_are_a_model_on_a_gpu_and_equal_runs_are_merged(tmp_path: Path) -> None:
    frame = read_sia_allreduce(write_measurements(tmp_path) / "sia_allreduce")
    raw = sia_rows()
    raw = raw[raw["gpu"] != "quad"]
    assert not frame["accelerator"].eq("quad").any()
    assert len(frame) == len(raw) // 2
    assert set(frame["job"]) == {
        f"{model}-{gpu}" for model in ("imagenet", "bert", "yolov3") for gpu in ("aws", "rtx")
    }
    one = frame[(frame["job"] == "bert-aws") & (frame["workers"] == 8) & (frame["batch_size"] == 16)].iloc[0]
    step, sync = 0.02 + 0.03 * 16 + (0.05 + 0.024) * 2, (0.05 + 0.024) * 2
    assert one["throughput"] == pytest.approx(8 * 16 / step, rel=1e-3)
    assert one["compute_seconds"] == pytest.approx(step - sync, rel=1e-3)
    assert one["nodes"] == 2


def test_asynchronous_jobs_count_steps(tmp_path: Path) -> None:
    frame = read_cmdare_ps(write_measurements(tmp_path) / "cmdare_ps")
    assert set(frame["mode"]) == {"async"}
    assert frame["job"].nunique() == 4
    assert frame.loc[
        frame["job"].eq("res15-K80") & frame["workers"].eq(4) & frame["ps"].eq(2), "throughput"
    ].item() == (pytest.approx(4 / 0.14))


def test_runs_of_one_input_on_one_machine_type_are_one_job(tmp_path: Path) -> None:
    frame = read_c3o(write_measurements(tmp_path) / "c3o")
    assert frame["job"].nunique() == 2 * 2 * 3
    assert (frame.groupby("job")["workers"].nunique() == 4).all()
    assert frame.groupby("job").size().max() == 4  # three repetitions are one row, their median
    one = frame[frame["job"].eq("sort/m4/1000") & frame["workers"].eq(2)].iloc[0]
    assert one["throughput"] == pytest.approx(1 / (500 + 10 + 20 + 1))
    assert frame.groupby("job")["group"].nunique().max() == 1


def test_a_set_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = read_published(write_measurements(tmp_path, "c3o"))
    assert list(found.frames) == ["c3o"]
    assert found.absent == ("dl2_ps", "cmdare_ps", "sia_allreduce")
    same, foreign = data_sets(found)
    assert (same.name, foreign.name) == ("c3o", "c3o_foreign")
    assert set(foreign.frame["group"]) == {"c3o grep", "c3o sort"}
    assert not set(same.frame["group"]) & set(foreign.frame["group"])


def test_a_column_that_is_missing_is_named_with_its_file(tmp_path: Path) -> None:
    folder = write_measurements(tmp_path) / "dl2_ps"
    dl2_rows().drop(columns="global_batch").to_csv(folder / "config_speed.csv", index=False)
    with pytest.raises(InvalidInput, match=r"config_speed\.csv: no column global_batch"):
        read_dl2_ps(folder)


@pytest.mark.skipif(not DATA.is_dir(), reason="no public data: set CONVOY_DATA to a folder that holds it")
def test_the_public_sets() -> None:
    sets = {one.name: one.frame for one in data_sets(read_published(DATA))}
    if "dl2_ps" in sets:
        rows = sets["dl2_ps"]
        assert ((rows["workers"] + rows["ps"]) <= 24).all()
        assert (rows["status"].eq("failed") == rows["throughput"].eq(0)).all()
    if "sia_allreduce" in sets:
        rows = sets["sia_allreduce"]
        seconds: pd.Series[float] = rows["workers"] * rows["batch_size"] / rows["throughput"]
        assert (rows["compute_seconds"] > 0).all()
        assert (rows["compute_seconds"] < 1.001 * seconds).all()
    assert sets
