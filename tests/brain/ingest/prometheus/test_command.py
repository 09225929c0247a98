"""``convoy brain collect``: what it prints, refuses and ends with."""

import os
import tomllib
from collections import Counter
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa

from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.migrate import migrate
from convoy.brain.store.tables import Cluster, Node, NodeLoad
from support.command import convoy
from support.disposable import disposable_prometheus
from support.guarded_prometheus import USER, guarded_prometheus
from support.openmetrics import BEGIN, History, counting, every

HOUR = 3600
FOR_EVER = {"CONVOY_KEEP_LOAD_DAYS": "0", "CONVOY_KEEP_HOURS_DAYS": "0"}


@pytest.fixture
def database(home):
    url = f"sqlite:///{home / 'brain.db'}"
    migrate(url)
    return url


def stored(url, table):
    engine = open_engine(url)
    with reading(engine) as connection:
        rows = connection.execute(sa.select(table.__table__)).all()
    engine.dispose()
    return rows


def collect(*arguments, **environment):
    return convoy("brain", "collect", *arguments, env={**os.environ, **environment})


def history(machines=2, until=HOUR, begin=0):
    known = History()
    for machine in range(machines):
        labels = {"cpu": "0", "mode": "user", "instance": f"n{machine}:9100", "job": "node"}
        known.scraped("node_cpu_seconds_total", labels, every(30, begin + until, since=begin), counting(1.0))
    return known.text()


def counts(stored, there=0):
    of_machines = f"{stored} rows of machines stored, {there} there already"
    return f"{of_machines}; 0 rows of pods stored, 0 there already"


def moment(second):
    return datetime.fromtimestamp(BEGIN + second, UTC).isoformat()


@pytest.mark.servers
def test_once_collects_what_is_due_and_says_what_it_could_not(home, database):
    with disposable_prometheus(home / "p", exporter=True) as server:
        done = collect("--once", "--cluster", "lab", "--prometheus-url", server.url, CONVOY_DATABASE_URL=database)
    assert (done.status, done.out) == (0, f"1 moment: {counts(0)}\n")
    assert "note: DCGM_FI_DEV_FB_USED, DCGM_FI_DEV_GPU_UTIL are not in Prometheus" in done.err
    assert "warning: container_cpu_usage_seconds_total, " in done.err


@pytest.mark.servers
def test_a_back_fill_that_was_killed_left_whole_moments_and_is_begun_again(home, database):
    machines, rows = 40, 40 * (HOUR - 120 + 30) // 30
    span = ["--from", moment(0), "--until", moment(HOUR)]
    keeping = {"CONVOY_DATABASE_URL": database, **FOR_EVER}
    with disposable_prometheus(home / "p", history=history(machines)) as server:
        keeping["CONVOY_PROMETHEUS_URL"] = server.url
        killed = collect(*span, **keeping, CONVOY_CRASH_AT="collect.after-batch")
        assert killed.status != 0
        part = Counter(int(row.ended_at.timestamp()) - BEGIN for row in stored(database, NodeLoad))
        done = collect(*span, **keeping)
        again = collect(*span, **keeping)
    assert 0 < part.total() < rows / 2  # of the first chunk a part, from early to late
    assert part == dict.fromkeys(every(30, max(part), since=120), machines)
    assert (done.status, again.status) == (0, 0)
    assert done.out == f"121 moments: {counts(rows - part.total(), part.total())}\n"
    assert again.out == f"121 moments: {counts(0, rows)}\n"
    assert len(stored(database, NodeLoad)) == rows
    assert [row.name for row in stored(database, Cluster)] == ["default"]
    assert {row.name for row in stored(database, Node)} == {f"n{machine}" for machine in range(machines)}


@pytest.mark.servers
def test_what_is_older_than_the_store_keeps_is_counted_and_left_out(home, database):
    with disposable_prometheus(home / "p", history=history()) as server:
        done = collect(
            "--from",
            moment(0),
            "--until",
            moment(HOUR),
            CONVOY_DATABASE_URL=database,
            CONVOY_PROMETHEUS_URL=server.url,
        )
    assert done.status == 0
    assert done.out.splitlines() == [
        "121 moments left out, older than what the store keeps (keep_load_days)",
        f"0 moments: {counts(0)}",
    ]
    assert stored(database, NodeLoad) == []


@pytest.mark.servers
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("sum by (instance) (rate(node_cpu_seconds_total[1m])", "parse error: unclosed left parenthesis"),
        ("node_cpu_seconds_total[1m]", 'invalid expression type "range vector" for range query'),
    ],
)
def test_a_query_that_is_not_promql_is_refused_with_file_measure_and_why(home, database, query, said):
    file = home / "mine.toml"
    file.write_text(
        f'[node.cpu_cores]\nquery = \'{query}\'\nmetrics = ["node_cpu_seconds_total"]\nnode = ["instance"]\n'
    )
    with disposable_prometheus(home / "p", history=history()) as server:
        for how in (["--once"], ["--from", moment(0), "--until", moment(HOUR)], []):
            done = collect(
                *how,
                "--queries",
                str(file),
                CONVOY_DATABASE_URL=database,
                CONVOY_PROMETHEUS_URL=server.url,
                **FOR_EVER,
            )
            assert (done.status, done.out) == (2, "")
            told = " ".join(done.err.split())
            assert f"queries file {file}: node.cpu_cores.query isn't PromQL" in told
            assert said in told
    assert stored(database, NodeLoad) == []


@pytest.mark.servers
def test_a_wrong_password_is_refused_and_never_shown(home, database):
    with guarded_prometheus(home / "p") as server:
        url = f"https://{USER}:guess-1234@{server.host}"
        for how in (["--once"], ["--from", moment(0)], []):
            done = collect(
                *how,
                CONVOY_DATABASE_URL=database,
                CONVOY_PROMETHEUS_URL=url,
                CONVOY_PROMETHEUS_CA_FILE=str(server.ca_file),
            )
            assert done.status == 2
            assert "it refuses what it was shown (HTTP status 401)" in done.err
            assert "guess-1234" not in done.out + done.err


def test_a_prometheus_that_is_away_is_named_and_nothing_is_made(home):
    nothing = f"sqlite:///{home / 'nothing.db'}"
    done = collect("--once", "--prometheus-url", "http://127.0.0.1:1", CONVOY_DATABASE_URL=nothing)
    assert done.status == 2
    assert "nothing.db: there is no such file" in done.err
    assert not (home / "nothing.db").exists()
    migrate(nothing)
    done = collect("--once", "--prometheus-url", "http://127.0.0.1:1", CONVOY_DATABASE_URL=nothing)
    assert (done.status, done.out) == (1, "")
    assert "Prometheus at http://127.0.0.1:1: Connection refused" in done.err


def test_queries_are_shown_as_they_are_in_force(home):
    file = home / "queries.toml"
    file.write_text("[pod.disk_read]\noff = true\n")
    done = collect("--show-queries", "--queries", str(file), "--every", "5m")
    assert done.status == 0
    assert "# A row each 5m: $window is 5m, $fresh is 45s." in done.out
    shown = tomllib.loads(done.out)
    assert shown["pod"]["disk_read"] == {"off": True}
    assert shown["node"]["cpu_cores"]["metrics"] == ["node_cpu_seconds_total"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--once"], "prometheus_url: not set"),
        (["--every", "half"], "--every: expected a duration in whole seconds such as 30s"),
        (["--every", "0s"], "load_step_seconds: Input should be greater than or equal to 1"),
        (["--every", "2h"], "load_step_seconds: Input should be less than or equal to 3600"),
        (["--until", "2026-01-31"], "--until needs --from"),
        (["--once", "--from", "2026-01-31"], "--once and --from exclude each other"),
        (
            ["--from", "yesterday", "--prometheus-url", "http://127.0.0.1:1"],
            "--from yesterday: expected a moment such as",
        ),
        (["--show-queries", "--queries", "nothing.toml"], "queries file nothing.toml: No such file"),
    ],
)
def test_what_cannot_be_right_is_refused_with_the_remedy(database, arguments, said):
    done = collect(*arguments, CONVOY_DATABASE_URL=database)
    assert (done.status, done.out) == (2, "")
    assert said in " ".join(done.err.split())
