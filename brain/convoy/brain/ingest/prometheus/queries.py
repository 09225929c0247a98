"""What is asked of Prometheus: the queries of queries.toml, and those of a user's file in their place."""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from convoy.brain.ingest.prometheus.durations import duration_of, seconds_of
from convoy.brain.store.tables.series import LoadMeasures
from convoy.core.api.errors import InvalidSetting

COLUMNS = tuple(LoadMeasures.__annotations__)
GROUPS = ("node", "pod")
_NAMES = "node_names"
_OFF = {"off": True}
_PLACEHOLDER = re.compile(r"\$([A-Za-z_]\w*)")
_KNOWN = ("window", "fresh")
_SCRAPES_A_WINDOW = 4  # rate needs two samples: so many that a scrape may fail or come late
_SCRAPES_FRESH = 1.5  # less, and a late scrape is a gap; more, and rate makes less of what it doesn't see


def _duration(text: str) -> str:
    if seconds_of(text) < 1:
        raise ValueError("expected at least 1s")
    return text


def _query(text: str) -> str:
    unknown = [name for name in _PLACEHOLDER.findall(text) if name not in _KNOWN]
    if unknown:
        raise ValueError(f"${unknown[0]} isn't known; known are ${' and $'.join(_KNOWN)}")
    if not text.strip():
        raise ValueError("is empty; to leave the measure out write `off = true` alone")
    return text


Duration = Annotated[str, AfterValidator(_duration)]
Label = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Labels = Annotated[list[Label], Field(min_length=1)]
Metric = Annotated[str, Field(pattern=r"^[A-Za-z_:][A-Za-z0-9_:]*$")]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Query(_Table):
    """A query and what it needs."""

    query: Annotated[str, AfterValidator(_query)]
    metrics: Annotated[list[Metric], Field(min_length=1)]
    exporter: Annotated[str, Field(min_length=1)] = "an exporter that --queries names"
    optional: bool = False


class NodeQuery(Query):
    """A measure of machines."""

    node: Labels
    cut_port: bool = True


class PodQuery(Query):
    """A measure of pods."""

    namespace: Labels
    pod: Labels


class NodeNames(Query):
    """How machines are called whose label is an address."""

    address: Label
    name: Label


class Queries(_Table):
    """All queries; ``$window`` and ``$fresh`` still stand in them."""

    scrape_interval: Duration
    settle: Duration
    node_names: NodeNames | None = None
    node: dict[str, NodeQuery] = {}
    pod: dict[str, PodQuery] = {}

    def measures(self) -> Iterator[tuple[str, NodeQuery | PodQuery]]:
        """Yield each measure under its name, such as ``node.cpu_cores``."""
        for group in GROUPS:
            for column, query in getattr(self, group).items():
                yield f"{group}.{column}", query

    def window(self, step: int) -> int:
        """Return the seconds that ``$window`` stands for, where there is a row each ``step`` seconds."""
        return max(_SCRAPES_A_WINDOW * seconds_of(self.scrape_interval), step)

    def fresh(self) -> int:
        """Return the seconds that ``$fresh`` stands for."""
        return math.ceil(_SCRAPES_FRESH * seconds_of(self.scrape_interval))

    def promql(self, query: Query, step: int) -> str:
        """Return the query as Prometheus takes it."""
        means = {"window": duration_of(self.window(step)), "fresh": duration_of(self.fresh())}
        return _PLACEHOLDER.sub(lambda match: means[match.group(1)], query.query).strip()


def load(file: Path | None = None) -> Queries:
    """Return the built-in queries, and a file's in place of those of the same name.

    Raises:
        InvalidSetting: the file can't be read, or a key or a value in it is wrong; the message names it.
    """
    tables = tomllib.loads(resources.files(__package__).joinpath("queries.toml").read_text("utf-8"))
    if file is not None:
        tables = _merged(file, tables, _read(file))
    return _checked(str(file or "queries.toml"), tables)


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise InvalidSetting(
            f"queries file {file}: {why}; correct it, or name another with --queries or CONVOY_PROMETHEUS_QUERIES"
        ) from None


def _merged(file: Path, base: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in given.items():
        if key not in Queries.model_fields:
            raise _wrong(file, key, f"isn't known; {_hint(key, tuple(Queries.model_fields))}")
        merged[key] = _with(file, key, base[key], value) if key in GROUPS else value
    if merged[_NAMES] == _OFF:
        merged[_NAMES] = None
    return merged


def _with(file: Path, group: str, base: dict[str, Any], given: Any) -> dict[str, Any]:
    """Return a group's measures with the file's in their place, without those that are off."""
    if not isinstance(given, dict):
        raise _wrong(file, group, f"is {given!r}; expected tables such as [{group}.cpu_cores]")
    for column in given:
        if column not in COLUMNS:
            raise _wrong(file, f"{group}.{column}", f"is no measure; {_hint(column, COLUMNS)}")
    return {column: table for column, table in {**base, **given}.items() if table != _OFF}


def _checked(file: str, tables: dict[str, Any]) -> Queries:
    try:
        return Queries.model_validate(tables)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise _wrong(file, ".".join(map(str, first["loc"])), _said(first)) from None


def _said(error: Any) -> str:
    """Return what is wrong with a key, and what to do."""
    if error["type"] == "missing":
        return "is missing; a measure of the file takes the place of the built-in one as a whole: add the key"
    if error["type"] == "extra_forbidden":
        key = str(error["loc"][-1])
        if key == "off":
            return "stands beside other keys; write `off = true` alone to leave the measure out, or remove it"
        kinds = get_args(NodeQuery | PodQuery | NodeNames)
        known = sorted({name for kind in kinds for name in kind.model_fields})
        return f"isn't known; {_hint(key, tuple(known))}"
    return f"{error['msg'].removeprefix('Value error, ')} (it is {error['input']!r}); correct it"


def _hint(name: str, known: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.7)
    return f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"


def _wrong(file: Path | str, key: str, what: str) -> InvalidSetting:
    return InvalidSetting(f"queries file {file}: {key} {what}")
