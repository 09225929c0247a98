"""Files of public data sets that are damaged: refused by name, whatever way they are."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from convoy.brain.features.published.memory import BITBRAINS, bitbrains_usage, pods_usage
from convoy.brain.features.published.table import read_table
from convoy.brain.features.published.throughput import read_c3o, read_cmdare_ps, read_sia_allreduce
from convoy.core.api.errors import InvalidInput
from support.made_measurements import c3o_rows, cmdare_rows, sia_rows, write_measurements, write_pods


def with_value(rows: pd.DataFrame, column: str, value: str | None) -> pd.DataFrame:
    rows = rows.astype({column: object})
    rows.loc[3, column] = value
    return rows


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("steps_per_s_median", "fast", r"line 5: steps_per_s_median is 'fast'; expected a number"),
        ("workers", "1;2", r"line 5: workers is '1;2'; expected a number"),
        ("model", None, r"line 5: model is empty; expected a name"),
        ("gpu", "", r"line 5: gpu is empty; expected a name"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_its_file(
    tmp_path: Path, column: str, value: str | None, words: str
) -> None:
    with_value(cmdare_rows(), column, value).to_csv(tmp_path / "speed_cluster_size.csv", index=False)
    with pytest.raises(InvalidInput, match=rf"speed_cluster_size\.csv: {words}"):
        read_cmdare_ps(tmp_path)


def test_names_that_look_like_numbers_are_names(tmp_path: Path) -> None:
    cmdare_rows().assign(model=15, gpu="0100").to_csv(tmp_path / "speed_cluster_size.csv", index=False)
    assert set(read_cmdare_ps(tmp_path)["job"]) == {"15-0100"}


def test_no_row_is_lost_for_an_empty_size(tmp_path: Path) -> None:
    with_value(sia_rows(), "num_nodes", None).to_csv(tmp_path / "sia_throughput.csv", index=False)
    assert read_sia_allreduce(tmp_path)["nodes"].isna().sum() == 1
    other = tmp_path / "c3o"
    other.mkdir()
    with_value(c3o_rows(), "data_size_MB", None).to_csv(other / "grep.csv", index=False)
    assert read_c3o(other)["job"].str.endswith("/unknown").sum() == 1


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def flipped(path: Path) -> None:
    damaged = bytearray(path.read_bytes())
    for place in range(20, len(damaged) - 20, 97):
        damaged[place] ^= 0xFF
    path.write_bytes(damaged)


def empty(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [cut, flipped, empty])
def test_a_damaged_archive_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    packed = tmp_path / "table.csv.gz"
    packed.write_bytes(gzip.compress(b"number\n" + b"\n".join(b"%d" % n for n in range(5000))))
    assert len(read_table(packed, labels=(), numbers=("number",))) == 5000
    damage(packed)
    with pytest.raises(InvalidInput, match=r"table\.csv\.gz: can't be read as CSV: .*fetch the data set again"):
        read_table(packed, labels=(), numbers=("number",))


@pytest.mark.parametrize("damage", [cut, flipped, empty])
def test_damaged_arrays_are_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = tmp_path / BITBRAINS
    used = np.random.default_rng(0).uniform(1.0, 2.0, (3, 200))
    np.savez_compressed(path, mem=used, cap_mb=np.full(3, 4.0), vm=np.arange(3))
    assert len(bitbrains_usage(tmp_path)) == 600
    damage(path)
    with pytest.raises(InvalidInput, match=r"max15min_mb\.npz: can't be read as arrays"):
        bitbrains_usage(tmp_path)


def test_a_share_of_memory_that_is_text(tmp_path: Path) -> None:
    folder = write_pods(tmp_path) / "alibaba_genai"
    path = next(folder.iterdir())
    with_value(pd.read_csv(path), "value", "most").to_csv(path, index=False)
    with pytest.raises(InvalidInput, match="line 5: value is 'most'"):
        pods_usage(folder)


def test_what_parsers_say_stays_on_one_line(tmp_path: Path) -> None:
    folder = write_measurements(tmp_path, "cmdare_ps") / "cmdare_ps"
    (folder / "speed_cluster_size.csv").write_bytes(b"model\nb,a\nx,y,z\n")
    with pytest.raises(InvalidInput) as caught:
        read_cmdare_ps(folder)
    assert "\n" not in str(caught.value)
