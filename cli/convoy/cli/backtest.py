"""``convoy brain backtest``: how right the models are, on public data or on the project's own store."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from convoy.cli import backtest_series, backtest_table, database, local
from convoy.cli.screen import Working, counted, screen
from convoy.core.api.errors import InvalidSetting, Unusable

if TYPE_CHECKING:
    import pandas as pd
    from sqlalchemy.engine import Engine

    from convoy.brain.models.backtest.data import DataSet
    from convoy.brain.models.backtest.splits import Protocol


def run(
    data: Path | None,
    *,
    protocols: Sequence[str],
    names: Sequence[str],
    methods: Sequence[str],
    seeds: int,
    all_history: bool,
    output: Path | None,
    database_url: str | None,
) -> None:
    """Run the back-test, print its tables, write its figures and results.

    Raises:
        InvalidSetting: a data set, protocol or method of another name than there are; a folder that isn't there.
        InvalidInput: a data set can't be used.
        NotFound: the store has too few jobs.
        Unusable: the database, or the output, can't be used.
        BacktestFailed: a method failed on a case.
    """
    from convoy.brain.models.backtest.bootstrap import summary
    from convoy.brain.models.backtest.splits import Protocol
    from convoy.brain.models.backtest.suite import contestants
    from convoy.brain.models.backtest.suite import run as run_all
    from convoy.brain.plan import next_configuration

    wanted = [Protocol(one) for one in _chosen("--protocol", protocols, [str(one) for one in Protocol])]
    who = contestants(next_configuration)
    who = who.only(_chosen("--method", methods, who.names))
    if output is not None:
        _make(output)
    with _progress() as progress:
        if data is not None:
            there, sets, parts = _public(data, wanted, names, progress)
        else:
            there, sets, parts = [], *_own(database_url, wanted, names, progress)
        results = run_all(sets, who, wanted, seeds, elsewhere=there if all_history else (), progress=progress)
    if data is not None and not len(results) and not parts:
        raise InvalidSetting(
            f"--protocol {', '.join(wanted)}: the data sets that were chosen have no case for it; "
            "docs/backtest.md says what is asked of which"
        )
    found = summary(results) if len(results) else results
    _print(results, found, sets, parts)
    if output is not None:
        _write(output, results, found, parts)


def _chosen(option: str, given: Sequence[str], there: Sequence[str]) -> list[str]:
    unknown = [name for name in given if name not in there]
    if unknown:
        raise InvalidSetting(f"{option} {unknown[0]}: expected one of {'; '.join(there)}")
    return list(given) or list(there)


def _public(
    folder: Path, wanted: Sequence[Protocol], names: Sequence[str], tell: backtest_series.Tell
) -> tuple[list[DataSet], list[DataSet], list[backtest_series.Part]]:
    """Return all data sets of speeds that are there, those of them that are asked for, and the other parts."""
    from convoy.brain.features.published.throughput import data_sets, read_published

    if not folder.is_dir():
        raise InvalidSetting(f"--data {folder}: no such folder; expected one with a folder for each data set")
    published = read_published(folder)
    sets = data_sets(published)
    others = backtest_series.there(folder)
    absent = [*published.absent, *(name for name in backtest_series.FOLDERS if name not in others)]
    if not sets and not others:
        raise InvalidSetting(f"--data {folder}: holds none of {', '.join(absent)}")
    for name in absent:
        screen(sys.stderr).print(f"{name}: not in {folder}, left out")
    chosen = _chosen("--data-set", names, [*(one.name for one in sets), *others])
    parts = backtest_series.public(folder, chosen, wanted, tell)
    return sets, [one for one in sets if one.name in chosen and _of_speed(wanted)], parts


def _own(
    database_url: str | None, wanted: Sequence[Protocol], names: Sequence[str], tell: backtest_series.Tell
) -> tuple[list[DataSet], list[backtest_series.Part]]:
    from convoy.brain.features.past_jobs import NAME, past_jobs

    _chosen("--data-set", names, [NAME])
    with _store(database_url) as engine:
        sets = [past_jobs(engine)] if _of_speed(wanted) else []
        return sets, backtest_series.stored(engine, wanted, tell)


def _of_speed(wanted: Sequence[Protocol]) -> bool:
    from convoy.brain.models.backtest.suite import SPEED_PROTOCOLS

    return any(protocol in SPEED_PROTOCOLS for protocol in wanted)


@contextmanager
def _store(database_url: str | None) -> Iterator[Engine]:
    from convoy.brain.settings import BrainSettings
    from convoy.brain.store.engine import check, open_engine
    from convoy.brain.store.migrate import require_schema

    cluster = local.existing_cluster()
    url = database_url
    if cluster is not None:
        with closing(cluster):
            url = url or database.for_readers(cluster)
    address = BrainSettings.load(database_url=url).database()
    check(address, must_exist=True)
    engine = open_engine(address, must_exist=True)
    try:
        require_schema(engine)
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _progress() -> Iterator[backtest_series.Tell]:
    """Show on a terminal what is done; nothing where stderr is none."""
    done: dict[str, int] = {}
    with Working("reading the data") as line:

        def tell(data: str, job: str) -> None:
            done[data] = done.get(data, 0) + 1
            line(f"{data}: {job} done, {done[data]} so far")

        yield tell


def _print(
    results: pd.DataFrame, found: pd.DataFrame, sets: Sequence[DataSet], parts: Sequence[backtest_series.Part]
) -> None:
    console = screen(wide=True)
    if sets and not len(results):
        console.print("no case: none of the jobs has enough configurations for these protocols")
    elif sets:
        for table in backtest_table.tables(found):
            console.print(table)
        _print_comparison(results, sets)
    for part in parts:
        console.print(backtest_series.table(part))


def _print_comparison(results: pd.DataFrame, sets: Sequence[DataSet]) -> None:
    from convoy.brain.models.backtest.bootstrap import compared_with_published
    from convoy.brain.models.backtest.suite import OURS

    named = {one.name: one.published for one in sets if one.published is not None}
    for score in (one for one in ("mdape", "regret") if one in results.columns):
        rows = compared_with_published(results, OURS, named, score)
        if len(rows):
            screen(wide=True).print(backtest_table.comparison(rows, score))


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unusable(f"--output {folder}: can't be made: {error}; name a folder that can be written") from error


def _write(folder: Path, results: pd.DataFrame, found: pd.DataFrame, parts: Sequence[backtest_series.Part]) -> None:
    from convoy.brain.report.backtest import figures

    written = {"cases.csv": results, "summary.csv": found} if len(results) else {}
    for part in parts:
        written[f"{part.file}.csv"] = part.scores
        written[f"{part.file}-summary.csv"] = part.summary
    drawn = figures(found) if len(results) else {}
    try:
        for name, frame in written.items():
            frame.to_csv(folder / name, index=False)
        for name, svg in drawn.items():
            (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
    except OSError as error:
        raise Unusable(f"--output {folder}: can't be written: {error}; name a folder that can be") from error
    screen().print(f"{folder}: {', '.join(written)} and {counted(len(drawn), 'figure')} written")
