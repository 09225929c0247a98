"""``convoy brain models``: what people see of the registry, and how each command ends."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from convoy.brain.store.engine import default_url, open_engine
from convoy.brain.store.migrate import migrate
from convoy.brain.store.model_files import Registry, Stage
from support.command import convoy
from support.model_files import contest, model_file

NOW = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.fixture
def registry(state_dir):
    url = default_url(state_dir)
    migrate(url)
    engine = open_engine(url)
    yield Registry(engine, state_dir / "models")
    engine.dispose()


@pytest.fixture
def champion(registry):
    version = registry.register(model_file(contest=contest(0.2)))
    registry.consider(version, NOW)
    return registry.version("throughput")


@pytest.fixture
def candidate(registry, champion):
    return registry.register(model_file(2.0, contest=contest(0.1, champion=(champion.digest, 0.2))))


def test_without_models_the_list_says_how_to_get_some(registry):
    shown = convoy("brain", "models", "list")
    assert (shown.status, shown.out) == (0, "there are no models; fit one with `convoy brain fit`\n")


def test_the_list_shows_stage_window_rows_and_scores(candidate):
    shown = convoy("brain", "models", "list")
    assert shown.status == 0
    head, newest, oldest = (line.split() for line in shown.out.splitlines())
    assert head[:3] == ["MODEL", "VERSION", "STAGE"]
    assert newest[:3] == ["throughput", "2", "candidate"]
    assert oldest[:3] == ["throughput", "1", "champion"]
    assert "2026-01-01 12:00" in shown.out
    assert "20.0% (20.0%..20.0%)" in shown.out
    assert oldest[-1] == "BetterThanBaseline"
    listed = json.loads(convoy("brain", "models", "list", "throughput", "--json").out)
    assert [(one["number"], one["stage"], one["rows"]) for one in listed] == [
        (2, "candidate", 120),
        (1, "champion", 120),
    ]
    assert listed[1]["promoted_at"] == NOW.isoformat()


def test_show_and_card_say_what_a_version_is(champion, home):
    shown = convoy("brain", "models", "show", "throughput")
    assert shown.status == 0
    assert "throughput version 1: champion" in shown.out
    assert "promote [BetterThanBaseline]: it is the first one" in shown.out
    assert json.loads(convoy("brain", "models", "show", "throughput", "--json").out)["problem"] == ""
    card = convoy("brain", "models", "card", "throughput")
    assert card.out.startswith("# Model card: throughput, version 1\n")
    assert "| stage | champion |" in card.out
    assert convoy("brain", "models", "card", "throughput", "--output", home / "card.md").status == 0
    assert (home / "card.md").read_text() == card.out


def test_show_says_how_right_a_version_was_about_plans(registry, champion):
    assert "in use" not in convoy("brain", "models", "show", "throughput").out
    half = {"estimate": 0.5, "lower": 0.25, "upper": 0.75}
    told = {"plans": 9, "jobs": 6, "taken_back": 1, "bias": half, "median_error": half, "coverage": half,
            "load_below": half, "cost_error": None, "reason": ""}  # fmt: skip
    registry.note_feedback(champion, told, NOW)
    shown = " ".join(convoy("brain", "models", "show", "throughput").out.split())
    assert "in use 9 plans of 6 jobs carried out, 1 taken back; log bias +0.500 (+0.250..+0.750)" in shown
    assert "within 90 % 50% (25%..75%)" in shown
    registry.note_feedback(champion, told | {"plans": 2, "jobs": 2, "bias": None, "reason": "TooFewJobs"}, NOW)
    assert "too few to say how right it was [TooFewJobs]" in " ".join(
        convoy("brain", "models", "show", "throughput").out.split()
    )


def test_promote_decides_by_back_test_and_rollback_takes_it_back(registry, candidate):
    promoted = convoy("brain", "models", "promote", "throughput")
    assert promoted.status == 0, promoted.err
    assert "throughput version 2: promote [Better]: its errors are 0.51 times" in promoted.out
    kept = convoy("brain", "models", "promote", "throughput", "--version", "1")
    assert (kept.status, "keep [ChampionNotTested]" in kept.out) == (1, True)
    back = convoy("brain", "models", "rollback", "throughput")
    assert (back.status, back.out) == (0, "throughput version 1: champion again\n")
    assert registry.version("throughput").number == 1


def test_refuse_keeps_its_reason_and_takes_candidates_alone(registry, candidate):
    refused = convoy("brain", "models", "refuse", "throughput", "--version", "2", "--why", "a week of tests")
    assert (refused.status, refused.out) == (0, "throughput version 2: refused\n")
    found = registry.version("throughput", 2)
    assert (found.stage, found.decision["message"]) == (Stage.REFUSED, "a week of tests")
    assert convoy("brain", "models", "refuse", "throughput", "--version", "1").status == 2


def test_verify_names_files_that_cannot_be_used_and_those_that_nobody_names(registry, candidate):
    assert convoy("brain", "models", "verify").out == "2 files checked, 0 can't be used\n"
    file = registry.folder.path / candidate.file
    file.write_bytes(b"\x80\x05.")
    stray = registry.folder.write("memory", b"whatever")
    shown = convoy("brain", "models", "verify")
    assert shown.status == 1
    assert (
        f"throughput version 2 (candidate): [ModelFileCorrupt] {file}: its content isn't what its name says"
        in shown.out
    )
    assert f"{registry.folder.path / stray}: no version of this store names it" in shown.out
    assert shown.out.endswith("2 files checked, 1 can't be used\n")


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (("show", "throughput"), 1, "no version in database"),
        (("card", "throughput", "--version", "7"), 1, "no version 7"),
        (("promote", "throughput"), 1, "there is no candidate"),
        (("rollback", "throughput"), 1, "no version was champion before"),
        (("show", "weather"), 2, "expected one of throughput, load, memory, startup, demand"),
    ],
)
def test_what_isnt_there_is_named_with_what_to_do(registry, command, status, words):
    ended = convoy("brain", "models", *command)
    assert (ended.status, words in ended.err) == (status, True), ended.err


def test_the_folder_is_the_settings(registry, champion, home):
    moved = home / "elsewhere"
    os.rename(registry.folder.path, moved)
    assert "ModelFileMissing" in convoy("brain", "models", "verify").out
    environment = {**os.environ, "CONVOY_MODELS_DIR": str(moved)}
    assert convoy("brain", "models", "verify", env=environment).status == 0


def test_without_a_database_nothing_is_made(state_dir):
    ended = convoy("brain", "models", "list")
    assert (ended.status, "there is no such file" in ended.err) == (2, True)
    assert list(Path(state_dir).iterdir()) == []


def test_fit_says_what_to_do_where_there_is_nothing_to_fit_to(registry):
    ended = convoy("brain", "fit", "--model", "throughput")
    assert ended.status == 1
    assert "import history with `convoy brain import`" in ended.err
    assert "nothing was fitted" in ended.err


def test_a_stale_champion_is_told_by_the_settings(registry, champion):
    old = registry.register(
        model_file(2.0, contest=contest(0.2, champion=(champion.digest, 0.2)), created_at=NOW - timedelta(days=1))
    )
    environment = {**os.environ, "CONVOY_MODELS_FRESH_DAYS": "100000"}
    kept = convoy("brain", "models", "promote", "throughput", env=environment)
    assert (kept.status, "keep [NoBetter]" in kept.out) == (1, True)
    promoted = convoy("brain", "models", "promote", "throughput", "--version", str(old.number))
    assert "promote [NoWorseAndFresher]" in promoted.out
