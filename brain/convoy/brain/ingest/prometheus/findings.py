"""What keeps a measure from being collected, and what of it is new. Pure.

The other measures are stored meanwhile. A finding is told when it comes and when it goes, not each time it is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from convoy.brain.ingest.prometheus.queries import Query

MISSING = "MetricMissing"
SILENT = "QueryGivesNothing"
REFUSED = "QueryRefused"
UNNAMED = "SubjectUnnamed"


@dataclass(frozen=True, slots=True)
class Finding:
    """Why measures aren't collected. ``note``: as is to be expected of some clusters.

    Attributes:
        reason: stable, CamelCase.
        message: what is missing, and what to do.
        over: what is said when it is found no more.
    """

    reason: str
    message: str
    over: str
    note: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What came of one round of queries.

    Attributes:
        empty: the measures whose query gave no series, and what they need.
        present: which metrics have samples now.
        settled: which of them had some two windows ago too: a query over them should give something.
        refused: what was said of queries that can't be evaluated, by measure.
        unnamed: the labels that none of a measure's series has, by measure.
    """

    empty: Mapping[str, Query] = field(default_factory=dict)
    present: frozenset[str] = frozenset()
    settled: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)
    unnamed: Mapping[str, str] = field(default_factory=dict)


def judge(seen: Seen, scrape_interval: str) -> dict[str, Finding]:
    """Return the findings, by what makes each the same when it is found again."""
    found = [_refused(measure, why) for measure, why in seen.refused.items()]
    found += [_unnamed(measure, labels) for measure, labels in seen.unnamed.items()]
    lacking: dict[str, dict[str, Query]] = {}
    for measure, query in seen.empty.items():
        if not seen.present.issuperset(query.metrics):
            lacking.setdefault(query.exporter, {})[measure] = query
        elif seen.settled.issuperset(query.metrics):
            found.append(_silent(measure, query, scrape_interval))
    found += [_missing(exporter, queries, seen.present) for exporter, queries in lacking.items()]
    return {f"{finding.reason} {finding.over}": finding for finding in found}


def changes(before: Mapping[str, Finding], now: Mapping[str, Finding]) -> tuple[list[Finding], list[Finding]]:
    """Return the findings that came, and those that went."""
    came = [finding for key, finding in now.items() if key not in before]
    return came, [finding for key, finding in before.items() if key not in now]


def _missing(exporter: str, queries: Mapping[str, Query], present: frozenset[str]) -> Finding:
    """One finding an exporter: where it isn't scraped, all that it exports is missing."""
    metrics = sorted({metric for query in queries.values() for metric in query.metrics} - present)
    measures = ", ".join(sorted(queries))
    one = len(metrics) == 1
    return Finding(
        MISSING,
        f"{', '.join(metrics)} {'is' if one else 'are'} not in Prometheus, so that {measures} can't be collected; "
        f"{exporter} exports {'it' if one else 'them'}: let Prometheus scrape it, or put a query of yours in "
        "place (--queries)",
        f"{', '.join(metrics)} {'is' if one else 'are'} in Prometheus again, or needed no more",
        note=all(query.optional for query in queries.values()),
    )


def _silent(measure: str, query: Query, scrape_interval: str) -> Finding:
    metrics, are = ", ".join(query.metrics), "is" if len(query.metrics) == 1 else "are"
    return Finding(
        SILENT,
        f"{measure}: {metrics} {are} in Prometheus and the query gives nothing; is each target scraped every "
        f"{scrape_interval} or more often (scrape_interval), and are the labels there that the query names? "
        "`convoy brain collect --show-queries` prints it",
        f"{measure}: the query gives something now",
    )


def _refused(measure: str, why: str) -> Finding:
    return Finding(
        REFUSED,
        f"{measure}: its query can't be evaluated ({why}); correct it in the queries file (--queries)",
        f"{measure}: its query can be evaluated now",
    )


def _unnamed(measure: str, labels: str) -> Finding:
    return Finding(
        UNNAMED,
        f"{measure}: no series has a usable label {labels}; aggregate by it in the query, or name another label "
        "(--queries)",
        f"{measure}: its series are named now",
    )
