import subprocess
import sys

import frames_page
import pandas as pd
import pytest

from convoy.brain.features import frames
from convoy.brain.features.layout import DTYPES
from support.stored import Stored

CALLS = {
    "history": lambda engine: frames.history(engine),
    "observed": lambda engine: frames.observed(engine, "uid-1"),
    "pod_load": lambda engine: frames.pod_load(engine, "uid-1"),
    "machine_load": lambda engine: frames.machine_load(engine),
    "machine_hours": lambda engine: frames.machine_hours(engine),
    "cluster_hours": lambda engine: frames.cluster_hours(engine),
    "memory_usage": lambda engine: frames.memory_usage(engine),
    "plan_outcomes": lambda engine: frames.plan_outcomes(engine),
    "startup_jobs": lambda engine: frames.startup_jobs(engine),
    "loader_wait": lambda engine: frames.loader_wait(engine),
    "gradient_noise": lambda engine: frames.gradient_noise(engine),
}
FUNCTIONS = [(name, layout) for layout in frames.LAYOUTS for name in layout.name.split(", ")]


def test_every_function_that_gives_a_frame_has_a_layout():
    given = {name for name in frames.__all__ if name[0].islower()} - {"is_over"}
    assert given == {name for name, _ in FUNCTIONS} == set(CALLS)


@pytest.mark.parametrize(("name", "layout"), FUNCTIONS)
def test_a_store_without_measurements_gives_empty_frames_with_the_documented_columns_and_types(engine, name, layout):
    Stored(engine).job("uid-1")
    frame = CALLS[name](engine)
    assert len(frame) == 0
    assert isinstance(frame.index, pd.RangeIndex)
    found = {column: str(dtype) for column, dtype in frame.dtypes.items()}
    assert found == {column.name: DTYPES[column.kind] for column in layout.columns}


def test_every_number_of_a_layout_names_its_unit_or_counts_something():
    units = ("(s)", "(cores)", "(bytes)", "(samples/s)", "accelerators)", "(cores, bytes)")
    without = {"accelerators_per_worker", "cluster_cpu", "batch_size", "accumulation_steps", "grad_sqr", "grad_var"}
    without |= {"error", "machines", "measured", "learning_rate", "price_per_hour"}
    for layout in frames.LAYOUTS:
        for column in layout.columns:
            if column.kind == "number" and column.name not in without:
                assert column.meaning.endswith(units) or "(cores, bytes)" in column.meaning, column
        assert set(layout.order) <= set(layout.names)


def test_the_page_says_what_the_layouts_say(tmp_path, monkeypatch):
    check = [sys.executable, frames_page.__file__, "--check"]
    assert subprocess.run(check, capture_output=True, text=True, timeout=50).stderr == ""
    stale = tmp_path / "frames.md"
    stale.write_text(frames_page.page().replace("cpu_used_max", "cpu_used_most"))
    monkeypatch.setattr(frames_page, "PAGE", stale)
    monkeypatch.setattr(sys, "argv", ["frames_page.py", "--check"])
    with pytest.raises(SystemExit, match=r"docs/frames.md is stale"):
        frames_page.main()
    monkeypatch.setattr(sys, "argv", ["frames_page.py"])
    assert frames_page.main() == 0
    assert stale.read_text() == frames_page.page()
