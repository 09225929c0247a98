"""``convoy demo --verify``: every claim holds on an honest run, and each one fails when its evidence is spoilt."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from convoy.cli.demo.verify import claims, command, evidence
from convoy.core.api.errors import InvalidInput
from support import demo_run

Record = dict[str, Any]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("honest")
    demo_run.write_run(directory)
    return directory


@pytest.fixture
def run(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "run"))


def failing(directory: Path) -> set[str]:
    return {verdict.claim for verdict in claims.judge(evidence.read(directory)) if verdict.holds is False}


def edit_steps(directory: Path, change: Callable[[Record], Record | None], job: str = "digits-1111*") -> int:
    changed = 0
    for file in directory.glob(f"state/jobs/default/{job}/steps/*.jsonl"):
        records = [json.loads(line) for line in file.read_text().splitlines()]
        new = [change(dict(record)) for record in records]
        changed += sum(before != after for before, after in zip(records, new, strict=True))
        file.write_text("".join(json.dumps(record) + "\n" for record in new if record is not None))
    assert changed
    return changed


def edit_store(directory: Path, statement: str) -> None:
    with closing(sqlite3.connect(directory / "state" / "brain.db")) as connection:
        assert connection.execute(statement).rowcount
        connection.commit()


def edit_object(directory: Path, name: str, change: Callable[[Record], None]) -> None:
    with closing(sqlite3.connect(directory / "state" / "cluster" / "cluster.db")) as connection:
        [(text,)] = connection.execute("SELECT manifest FROM objects WHERE name = ?", (name,)).fetchall()
        manifest = json.loads(text)
        change(manifest)
        connection.execute("UPDATE objects SET manifest = ? WHERE name = ?", (json.dumps(manifest), name))
        connection.commit()


def test_every_claim_holds_on_an_honest_run(honest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert failing(honest) == set()
    assert command.run(honest) == 0
    out = capsys.readouterr().out
    assert out.count("PASS") == len(claims.CLAIMS)
    assert "FAIL" not in out


def test_a_failing_claim_is_named_and_the_exit_status_is_1(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_object(run, "digits", lambda job: job["status"].update(phase="Failed"))
    assert command.run(run) == 1
    assert "FAIL  The job ended Succeeded: phase Failed" in capsys.readouterr().out


def in_round(number: int) -> Callable[[Record], bool]:
    return lambda record: record.get("round") == number


def test_a_removed_step_is_found(run: Path) -> None:
    edit_steps(run, lambda record: None if record.get("step") == 50 and "round" in record else record)
    assert "No step was repeated where the size changed" in failing(run)


def test_a_rank_that_missed_a_step_is_found(run: Path) -> None:
    missed = lambda r: r.get("round") == 2 and r["rank"] == 1 and r["step"] % 50 == 0  # noqa: E731
    edit_steps(run, lambda record: None if missed(record) else record)
    assert "No step was repeated where the size changed" in failing(run)


def test_a_step_repeated_at_the_growth_is_found(run: Path) -> None:
    """As if the round after the growth had begun one step earlier."""

    def earlier(record: Record) -> Record:
        return {**record, "step": record["step"] - 1} if in_round(2)(record) else record

    edit_steps(run, earlier)
    assert "No step was repeated where the size changed" in failing(run)


def test_a_changed_batch_is_found(run: Path) -> None:
    def other(record: Record) -> Record:
        return {**record, "global_batch": 1024} if record.get("round") == 2 and record["step"] % 97 == 0 else record

    edit_steps(run, other)
    assert failing(run) == {"The global batch stayed what it was at every step"}


def test_parts_that_dont_add_up_are_found(run: Path) -> None:
    def other(record: Record) -> Record:
        return {**record, "local_batch": 200} if in_round(5)(record) and record["rank"] == 1 else record

    edit_steps(run, other)
    assert failing(run) == {"The global batch stayed what it was at every step"}


@pytest.mark.parametrize(("number", "what"), [(3, "worker"), (4, "node")])
def test_repeating_more_than_since_the_checkpoint_is_found(run: Path, number: int, what: str) -> None:
    """As if an older checkpoint had been restored: the steps before it in the log again, twenty earlier."""

    def earlier(record: Record) -> Record:
        return {**record, "step": record["step"] - 20} if in_round(number)(record) else record

    edit_steps(run, earlier)
    assert f"A killed {what} cost at most the steps since the checkpoint" in failing(run)


def test_a_worker_that_wasnt_killed_is_found(run: Path) -> None:
    kills = (run / "kills.jsonl").read_text().replace('"pid": 200', '"pid": 100')
    (run / "kills.jsonl").write_text(kills)
    assert "A killed worker cost at most the steps since the checkpoint" in failing(run)


def test_a_node_that_came_back_under_its_own_name_is_found(run: Path) -> None:
    edit_steps(run, lambda r: {**r, "pod": demo_run.worker(1)} if r.get("pod") == demo_run.worker(2) else r)
    assert "A killed node cost at most the steps since the checkpoint" in failing(run)


def test_new_pids_after_the_masters_death_are_found(run: Path) -> None:
    later = demo_run.START + 76
    edit_steps(run, lambda r: {**r, "pid": 555} if r.get("pid") == 300 and r["t"] > later else r)
    assert "A killed master stopped no worker" in failing(run)


def test_a_master_that_nobody_replaced_is_found(run: Path) -> None:
    edit_object(run, "digits", lambda job: job["status"]["master"].update(epoch=1))
    assert failing(run) == {"A killed master stopped no worker"}


def test_a_counted_restart_too_many_is_found(run: Path) -> None:
    edit_object(run, "digits", lambda job: job["status"]["training"].update(restarts=2))
    assert failing(run) == {"Restarts were counted for workers and nodes alone"}


def test_a_pause_after_the_masters_death_is_found(run: Path) -> None:
    later = demo_run.START + 76
    edit_steps(run, lambda r: {**r, "t": r["t"] + 0.3} if in_round(5)(r) and r["t"] > later else r)
    assert "Without a master, no gap over twice the usual longest" in failing(run)


def test_an_interval_that_was_missed_is_found(run: Path) -> None:
    edit_store(run, "UPDATE recommendation SET lower99 = lower99 + 9000, lower90 = 17700, predicted = 18000, "
                    "upper90 = 18500, upper99 = 19000")  # fmt: skip
    assert failing(run) == {"The realized speed is inside the predicted 99 % interval"}


@pytest.mark.parametrize(
    "spoilt",
    [
        "lower90 = NULL",
        "price_per_hour = NULL",
        "reason = ''",
        "upper99 = lower99",
        "made_at = '2030-01-01 00:00:00'",
    ],
)
def test_advice_without_interval_price_or_reason_or_too_late_is_found(run: Path, spoilt: str) -> None:
    edit_store(run, f"UPDATE recommendation SET {spoilt}")
    assert "The Brain recommended first: interval, price, reason" in failing(run)


def test_a_plan_that_no_recommendation_asked_for_is_found(run: Path) -> None:
    edit_store(run, "DELETE FROM recommendation")
    assert {"The Brain recommended first: interval, price, reason", "The operator carried the plan out"} <= failing(
        run
    )


def test_a_plan_that_wasnt_carried_out_is_found(run: Path) -> None:
    edit_object(run, "digits-scaleplan-2", lambda plan: plan["status"].update(phase="Failed"))
    assert failing(run) == {"The operator carried the plan out"}


def test_a_bad_choice_is_found(run: Path) -> None:
    edit_steps(run, lambda r: {**r, "t": demo_run.START + (r["t"] - demo_run.START) / 3}, job="digits-at-1-*")
    assert failing(run) == {"The chosen size is within 15 % of the best"}


def test_a_size_that_wasnt_measured_is_found(run: Path) -> None:
    for folder in run.glob("state/jobs/default/digits-at-1-*"):
        shutil.rmtree(folder)
    with closing(sqlite3.connect(run / "state" / "cluster" / "cluster.db")) as connection:
        connection.execute("DELETE FROM objects WHERE name = 'digits-at-1'")
        connection.commit()
    assert failing(run) == {"The chosen size is within 15 % of the best"}


def test_a_size_that_the_brain_saw_is_found(run: Path) -> None:
    uids: list[str] = []
    edit_object(run, "digits-at-1", lambda job: uids.append(job["metadata"]["uid"]))
    columns = "name, namespace, template, image, user, strategy, model, cluster, node_type, state, origin, first_seen"
    edit_store(run, f"INSERT INTO job (uid, {columns}, last_seen) SELECT '{uids[0]}', {columns}, last_seen FROM job")
    assert failing(run) == {"The chosen size is within 15 % of the best"}


def test_history_that_isnt_marked_is_found(run: Path) -> None:
    edit_store(run, "UPDATE history_observation SET origin = 'measured' WHERE workers = 4")
    assert failing(run) == {"The Brain's store held a history, marked as imported"}


def test_missing_load_is_found(run: Path) -> None:
    edit_store(run, f"DELETE FROM job_node_load WHERE node = '{demo_run.worker(1)}'")
    assert failing(run) == {"Node load reached the store"}


@pytest.mark.parametrize("spoilt", ["samples = samples * 2", "seconds = seconds / 2", "round = 9"])
def test_a_speed_that_the_step_logs_contradict_is_found(run: Path, spoilt: str) -> None:
    edit_store(
        run, f"UPDATE training_speed SET {spoilt} WHERE last_step IN (SELECT max(last_step) FROM training_speed)"
    )
    assert failing(run) == {"Training speed reached the store, as the processes logged it"}


@pytest.mark.parametrize("what", ["worker", "node", "master"])
def test_a_fault_that_never_was_is_found(run: Path, what: str) -> None:
    lines = (run / "kills.jsonl").read_text().splitlines()
    (run / "kills.jsonl").write_text("".join(line + "\n" for line in lines if f'"{what}"' not in line))
    assert any(what in claim for claim in failing(run))


def test_a_torn_last_line_is_what_a_kill_leaves(run: Path) -> None:
    file = next(run.glob("state/jobs/default/digits-1111*/steps/*-200.jsonl"))
    with open(file, "a") as log:
        log.write('{"t": 18000')
    assert failing(run) == set()


def test_a_torn_line_elsewhere_is_no_evidence(run: Path) -> None:
    file = next(run.glob("state/jobs/default/digits-1111*/steps/*-200.jsonl"))
    file.write_text("{\n" + file.read_text())
    with pytest.raises(InvalidInput, match="line 1 can't be read"):
        command.run(run)


def test_the_quick_form_judges_neither_speeds_nor_the_node(run: Path) -> None:
    lines = (run / "kills.jsonl").read_text().replace("whole", "quick").splitlines()
    (run / "kills.jsonl").write_text("".join(line + "\n" for line in lines))
    verdicts = {verdict.claim: verdict.holds for verdict in claims.judge(evidence.read(run))}
    assert list(verdicts.values()).count(None) == 4
    assert all(holds is not False for holds in verdicts.values())


@pytest.mark.parametrize("missing", ["kills.jsonl", "state/brain.db", "state/cluster/cluster.db"])
def test_a_folder_without_a_run_is_refused(run: Path, missing: str) -> None:
    (run / missing).unlink()
    with pytest.raises(InvalidInput, match=missing.replace(".", r"\.")):
        command.run(run)
