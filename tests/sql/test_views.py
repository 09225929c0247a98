import re
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
import sqlalchemy as sa

from convoy.brain.features import frames
from convoy.brain.store.engine import reading, writing
from convoy.brain.store.rollup import roll_up
from convoy.brain.store.tables import RollupDue
from support.stored import GIB, START, Stored, at, pod_load, speed

PAGE = Path(__file__).parents[2] / "docs/sql-views.md"
VIEWS = ("job_efficiency", "waste_by_user", "node_utilization", "plan_outcomes", "pod_hour")
HOUR = 3600.0


@pytest.fixture
def stored(engine):
    return Stored(engine)


def rows(engine, view):
    with reading(engine) as connection:
        return [dict(row) for row in connection.exec_driver_sql(f"SELECT * FROM {view}").mappings()]


def moment(value):
    """As the driver gives it: text on SQLite."""
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return found.replace(tzinfo=UTC)


@pytest.mark.parametrize("view", VIEWS)
def test_the_page_names_each_column(engine, view):
    with reading(engine) as connection:
        columns = list(connection.exec_driver_sql(f"SELECT * FROM {view}").keys())
    section = PAGE.read_text().split(f"\n## {view}\n")[1].split("\n## ")[0]
    named = [name for line in re.findall(r"^\| (`.*?) \|", section, re.M) for name in re.findall(r"`(\w+)`", line)]
    assert sorted(named) == sorted(columns)


class TestJobEfficiency:
    def test_half_of_the_time_trained_at_the_steady_speed(self, engine, stored):
        job = stored.job(user="ada", state="Succeeded", first_seen=at(0), last_seen=at(200))
        stored.speed(
            job,
            [
                speed(20, rate=10.0, seconds=10, warming=True),
                *(speed(second, rate=100.0, seconds=20) for second in (40, 60, 80)),
                *(speed(second, rate=50.0, seconds=20, round=2, workers=2) for second in (160, 180)),
            ],
        )
        roll_up(engine)
        row = rows(engine, "job_efficiency")[0]
        assert row["elapsed_seconds"] == pytest.approx(200.0)
        assert (row["samples"], row["steady_seconds"], row["warming_seconds"]) == (3 * 2000 + 2 * 1000, 100.0, 10.0)
        assert row["steady_speed"] == pytest.approx(80.0)
        assert row["effective_speed"] == pytest.approx(40.0)
        assert row["trained_share"] == pytest.approx(0.5)
        assert (row["attempts"], row["hours_due"], row["user"]) == (2, 0, "ada")
        assert row["core_hours_used"] is None

    def test_a_job_that_never_told_a_round_pulls_no_mean_down(self, engine, stored):
        seen = {"first_seen": at(0), "last_seen": at(100)}
        stored.speed(stored.job("trains", **seen), [speed(60, rate=100.0, seconds=50)])
        stored.speed(stored.job("warms up", **seen), [speed(60, seconds=50, warming=True)])
        stored.pod_load(stored.job("watched", **seen), [pod_load(60, source="prometheus", round=0)])
        roll_up(engine)
        found = {row["job"]: row for row in rows(engine, "job_efficiency")}
        measures = (
            "samples",
            "steady_seconds",
            "warming_seconds",
            "effective_speed",
            "steady_speed",
            "trained_share",
        )
        assert [found["watched"][name] for name in ("attempts", *measures)] == [0, *[None] * 6]
        assert [found["warms up"][name] for name in ("attempts", *measures)] == [1, 0.0, 0.0, 50.0, 0.0, None, 0.0]
        with reading(engine) as connection:
            mean = connection.exec_driver_sql("SELECT AVG(effective_speed) FROM job_efficiency").scalar_one()
        assert mean == pytest.approx((50.0 + 0.0) / 2)

    def test_its_time_begins_with_the_first_window_if_that_was_before_it_was_seen(self, engine, stored):
        job = stored.job(first_seen=at(100), last_seen=at(150))
        stored.speed(job, [speed(60, seconds=20)])
        roll_up(engine)
        row = rows(engine, "job_efficiency")[0]
        assert moment(row["began"]) == at(40)
        assert row["elapsed_seconds"] == pytest.approx(110.0)

    def test_its_time_ends_where_its_speed_isnt_summed_yet(self, engine, stored):
        job = stored.job(first_seen=at(0), last_seen=at(2 * HOUR))
        stored.speed(job, [speed(1000, seconds=1000)])
        roll_up(engine)
        stored.speed(job, [speed(HOUR + 1000, seconds=1000)])
        row = rows(engine, "job_efficiency")[0]
        assert row["hours_due"] == 1
        assert moment(row["measured_until"]) == at(1000)
        assert row["trained_share"] == pytest.approx(1.0)
        roll_up(engine)
        row = rows(engine, "job_efficiency")[0]
        assert (row["hours_due"], row["elapsed_seconds"]) == (0, pytest.approx(2 * HOUR))
        assert row["trained_share"] == pytest.approx(2000 / (2 * HOUR))

    def test_a_quiet_jobs_time_goes_on_with_the_load_of_its_pods(self, engine, stored):
        quiet = stored.job("quiet", first_seen=at(0), last_seen=at(60))
        ended = stored.job("ended", first_seen=at(0), last_seen=at(2 * HOUR + 1200), state="Succeeded")
        for job in (quiet, ended):
            stored.pod_load(job, [pod_load(hour * HOUR + 600, cpu_cores=1.0) for hour in range(3)])
        roll_up(engine)
        found = {row["job"]: row for row in rows(engine, "job_efficiency")}
        assert moment(found["quiet"]["measured_until"]) == at(2 * HOUR)
        assert found["quiet"]["elapsed_seconds"] == pytest.approx(2 * HOUR)
        assert moment(found["ended"]["measured_until"]) == at(2 * HOUR + 1200)

    def test_a_deleted_job_isnt_taken_for_one_that_runs(self, engine, stored):
        stored.job("deleted", gone_at=at(90))
        stored.job("runs")
        found = {row["job"]: row for row in rows(engine, "job_efficiency")}
        assert {row["state"] for row in found.values()} == {"Running"}
        assert moment(found["deleted"]["gone_at"]) == at(90)
        assert found["runs"]["gone_at"] is None

    def test_what_it_used_stands_beside_what_it_was_allotted(self, engine, stored):
        job = stored.job()
        stored.pod(job, "worker-1", cpu_allotted=4.0, accelerators=2.0)
        half = {"seconds": HOUR / 2, "cpu_allotted": 2.0, "memory_allotted": 4 * GIB}
        stored.pod_load(
            job,
            [
                pod_load(HOUR / 2, cpu_cores=1.0, memory_bytes=2 * GIB, **half),
                pod_load(HOUR, cpu_cores=1.5, memory_bytes=3 * GIB, **half),
                pod_load(HOUR, "worker-1", seconds=HOUR / 4, cpu_cores=3.0, accelerator_busy=0.5),
                pod_load(HOUR, "worker-2", seconds=HOUR, cpu_cores=7.0),
            ],
        )
        roll_up(engine)
        row = rows(engine, "job_efficiency")[0]
        assert row["core_hours_used"] == pytest.approx(0.5 + 0.75 + 0.75 + 7.0)
        assert row["core_hours_allotted"] == pytest.approx(2.0 + 1.0)
        assert row["core_hours_share"] == pytest.approx(2.0 / 3.0)
        assert row["gib_hours_used"] == pytest.approx(1.0 + 1.5)
        assert row["gib_hours_allotted"] == pytest.approx(4.0)
        assert row["gib_hours_share"] == pytest.approx(2.5 / 4.0)
        assert row["accelerator_hours_used"] == pytest.approx(0.125)
        assert row["accelerator_hours_allotted"] == pytest.approx(0.5)
        assert row["accelerator_hours_share"] == pytest.approx(0.25)


def test_a_pods_hour_is_its_agents_where_that_knows(engine, stored):
    job = stored.job()
    stored.pod_load(
        job,
        [
            pod_load(10, cpu_cores=1.0, seconds=36, cpu_allotted=2.0),
            pod_load(20, cpu_cores=9.0, memory_bytes=GIB, seconds=360, source="prometheus", round=0),
            pod_load(10, "worker-1", cpu_cores=2.0, seconds=360, source="prometheus", round=0),
        ],
    )
    roll_up(engine)
    found = {row["pod"]: row for row in rows(engine, "pod_hour")}
    assert found["worker-0"]["core_hours_used"] == pytest.approx(0.01)
    assert found["worker-0"]["core_hours_wasted"] == pytest.approx(0.01)
    assert found["worker-0"]["gib_hours_used"] == pytest.approx(0.1)
    assert found["worker-1"]["core_hours_used"] == pytest.approx(0.2)
    assert found["worker-1"]["core_hours_wasted"] is None
    assert moment(found["worker-0"]["hour"]) == START


def test_a_text_that_isnt_known_is_empty_and_not_null(engine, stored):
    texts = ("template", "user", "cluster", "strategy")
    job = stored.job(**dict.fromkeys(texts, ""))
    stored.plan(job)
    stored.pod_load(job, [pod_load(60, cpu_cores=1.0)])
    stored.machine_load(stored.machine(), [pod_load(60, cpu_cores=1.0)])
    roll_up(engine)
    assert [rows(engine, "job_efficiency")[0][name] for name in texts] == [""] * 4
    assert [rows(engine, "plan_outcomes")[0][name] for name in texts[:3]] == [""] * 3
    assert [rows(engine, "waste_by_user")[0][name] for name in ("user", "cluster")] == [""] * 2
    assert rows(engine, "node_utilization")[0]["node_type"] == ""


class TestWasteByUser:
    def test_it_is_what_each_pod_left_by_the_day(self, engine, stored):
        one, other = stored.job("uid-1", user="ada", cluster="east"), stored.job("uid-2", user="ada", cluster="east")
        theirs = stored.job("uid-3", user="bob", cluster="east")
        whole = {"seconds": HOUR, "cpu_allotted": 4.0, "memory_allotted": 8 * GIB}
        stored.pod_load(one, [pod_load(600, cpu_cores=1.0, memory_bytes=2 * GIB, **whole)])
        stored.pod_load(one, [pod_load(600, "worker-1", cpu_cores=6.0, memory_bytes=2 * GIB, **whole)])
        stored.pod_load(other, [pod_load(600, cpu_cores=2.0, **whole), pod_load(24 * HOUR, cpu_cores=4.0, **whole)])
        stored.pod_load(theirs, [pod_load(600, cpu_cores=0.5, seconds=HOUR)])
        roll_up(engine)
        found = {(row["user"], str(row["day"])): row for row in rows(engine, "waste_by_user")}
        day, next_day = str(date(2026, 3, 2)), str(date(2026, 3, 3))
        assert set(found) == {("ada", day), ("ada", next_day), ("bob", day)}
        first = found["ada", day]
        assert first["jobs"] == 2
        assert first["core_hours_allotted"] == pytest.approx(12.0)
        assert first["core_hours_used"] == pytest.approx(9.0)
        assert first["core_hours_wasted"] == pytest.approx(3.0 + 0.0 + 2.0)
        assert first["gib_hours_allotted"] == pytest.approx(16.0)
        assert first["gib_hours_wasted"] == pytest.approx(12.0)
        assert first["accelerator_hours_wasted"] is None
        assert (first["cluster"], found["ada", next_day]["core_hours_wasted"]) == ("east", 0.0)
        assert found["bob", day]["core_hours_wasted"] is None
        assert found["bob", day]["core_hours_used"] is None

    def test_a_pod_of_an_hour_in_two_rounds_counts_once(self, engine, stored):
        job = stored.job(user="ada")
        half = {"seconds": HOUR / 2, "cpu_cores": 1.0, "cpu_allotted": 2.0}
        stored.speed(job, [speed(600), speed(3000, round=2)])
        stored.pod_load(job, [pod_load(600, **half), pod_load(3000, **half, round=2)])
        roll_up(engine)
        row = rows(engine, "waste_by_user")[0]
        assert row["core_hours_allotted"] == pytest.approx(2.0)
        assert row["core_hours_wasted"] == pytest.approx(1.0)


class TestNodeUtilization:
    def test_a_machines_hour_by_hand(self, engine, stored):
        node = stored.machine(
            cpu_capacity=8.0,
            cpu_allocatable=5.0,
            memory_capacity=10 * GIB,
            accelerators_capacity=2.0,
            accelerators_allocatable=2.0,
        )
        job = stored.job()
        stored.machine_load(
            node,
            [
                pod_load(600, cpu_cores=1.0, memory_bytes=2 * GIB, seconds=600, accelerator_busy=1.0),
                pod_load(900, cpu_cores=4.0, memory_bytes=4 * GIB, seconds=300),
            ],
        )
        held = {"node_id": node, "cpu_allotted": 4.0, "memory_allotted": 4 * GIB}
        stored.pod(job, "half", **held, started_at=at(HOUR / 2), accelerators=2.0)
        stored.pod(job, "quarter", **held, started_at=at(-HOUR), ended_at=at(HOUR / 4))
        stored.pod(job, "later", **held, started_at=at(HOUR))
        stored.pod(job, "waits", **held)
        roll_up(engine)
        row = rows(engine, "node_utilization")[0]
        assert (row["cluster"], row["machine"], moment(row["hour"])) == ("east", "machine-1", START)
        assert (row["measured_seconds"], row["cpu_used_max"], row["memory_used_max"]) == (900.0, 4.0, 4 * GIB)
        assert row["cpu_used"] == pytest.approx(2.0)
        assert row["cpu_used_share"] == pytest.approx(0.25)
        assert row["cpu_allotted"] == pytest.approx(3.0)
        assert row["cpu_allotted_share"] == pytest.approx(0.6)
        assert row["memory_used_share"] == pytest.approx(0.3)
        assert row["memory_allotted"] == pytest.approx(3 * GIB)
        assert row["memory_allotted_share"] is None
        assert (row["accelerators_used"], row["accelerators_used_share"]) == (1.0, 0.5)
        assert row["accelerators_allotted_share"] == pytest.approx(0.5)

    def test_it_says_what_the_frame_says(self, engine, stored):
        node = stored.machine("a", cpu_capacity=8.0)
        gone = stored.machine("b", gone_at=at(HOUR * 1.25))
        jobs = [
            stored.job("lives", last_seen=at(60)),
            stored.job("ended", state="Failed", last_seen=at(HOUR * 1.5)),
            stored.job("deleted", gone_at=at(HOUR / 3)),
        ]
        for number, job in enumerate(jobs):
            for machine in (node, gone):
                stored.pod(job, f"p{machine}", node_id=machine, cpu_allotted=1.0 + number, started_at=at(600))
        for machine in (node, gone):
            stored.machine_load(machine, [pod_load(hour * HOUR + 60, cpu_cores=1.0 + hour) for hour in range(3)])
        roll_up(engine)
        view = pd.DataFrame(rows(engine, "node_utilization"))
        view["time"] = [pd.Timestamp(moment(hour)) for hour in view["hour"]]
        frame = frames.machine_hours(engine)
        both = frame[frame["resource"] == "cpu"].merge(view, on=["machine", "time"])
        assert len(both) == 6
        assert both["allotted"].tolist() == pytest.approx(both["cpu_allotted"].tolist(), rel=1e-6)
        assert both["used"].tolist() == both["cpu_used"].tolist()


def test_plan_outcomes_say_what_the_frame_says(engine, stored):
    job = stored.job(user="ada")
    stored.recommendation(job, "r-1", history_jobs=7, observations=3)
    known = {"predicted": 200.0, "predicted_lower": 180.0, "predicted_upper": 230.0}
    stored.plan(job, "inside", **known, realized=220.0, recommendation_id="r-1", restart_seconds=9.5)
    stored.plan(job, "below", **known, realized=150.0, rolled_back=True, created_at=at(10))
    stored.plan(job, "not yet", **known, created_at=at(20))
    stored.plan(job, "by hand", realized=100.0, created_at=at(30))
    found = {row["plan"]: row for row in rows(engine, "plan_outcomes")}
    assert [found[name]["within_interval"] for name in ("inside", "below", "not yet", "by hand")] == [
        1,
        0,
        None,
        None,
    ]
    assert found["inside"]["error"] == pytest.approx(0.1)
    assert (found["inside"]["history_jobs"], found["inside"]["observations"]) == (7, 3)
    assert moment(found["inside"]["recommended_at"]) == START
    assert found["below"]["rolled_back"] == 1
    frame = frames.plan_outcomes(engine).set_index("plan")
    for name, row in found.items():
        for column in ("job", "user", "predicted", "realized", "error", "restart_seconds", "workers_after"):
            given, told = row[column], frame.loc[name, column]
            assert (given is None and pd.isna(told)) or given == told, (name, column)


def test_hours_that_are_due_count_by_subject(engine, stored):
    for number in range(2):
        job = stored.job(f"uid-{number}", last_seen=at(0) + timedelta(hours=9))
        stored.speed(job, [speed(hour * HOUR + 60) for hour in range(number + 1)])
    with writing(engine) as connection:
        connection.execute(sa.delete(RollupDue).where(RollupDue.hour > at(0)))
    assert sorted(row["hours_due"] for row in rows(engine, "job_efficiency")) == [1, 1]
