"""The registry of models: one champion, the last good one in place of a bad one, through kills and side by side."""

import os
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import sqlalchemy as sa

from convoy.brain.models.registry import BackTest, JobScore, Verdict, encode
from convoy.brain.models.registry.codec import digest
from convoy.brain.models.state import State
from convoy.brain.store.engine import open_engine, reading
from convoy.brain.store.locks import exclusive
from convoy.brain.store.migrate import migrate
from convoy.brain.store.model_files import Registry, Stage
from convoy.brain.store.model_files import registry as registry_module
from convoy.brain.store.tables import ModelVersion
from convoy.core.api.errors import CorruptState, InvalidInput, NotFound, Unavailable, Unusable
from support.model_files import FACTS, Line, contest, go_on, model_file

NOW = datetime(2026, 2, 1, tzinfo=UTC)


@pytest.fixture
def registry(engine, home):
    return Registry(engine, home / "models")


def champion_of(registry, slope=1.0, error=0.2, name="throughput"):
    version = registry.register(model_file(slope, name=name, contest=contest(error)))
    assert registry.consider(version, NOW).verdict is Verdict.PROMOTE
    return registry.version(name, version.number)


def successor_of(registry, champion, slope=2.0, error=0.1, now=NOW + timedelta(days=1)):
    tested = contest(error, champion=(champion.digest, 0.2))
    version = registry.register(model_file(slope, contest=tested))
    assert registry.consider(version, now).reason == "Better"
    return registry.version(version.name, version.number)


def damage(registry, version):
    file = registry.folder.path / version.file
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)


def stages(registry):
    return {(one.name, one.number): one.stage.value for one in registry.versions()}


def loaded(registry, **options):
    return registry.load("throughput", Line.restored, **options)


def test_a_registered_model_is_a_candidate_that_nothing_loads(registry):
    version = registry.register(model_file(contest=contest(0.2)))
    assert (version.number, version.stage, version.rows, version.jobs) == (1, Stage.CANDIDATE, 120, 7)
    assert version.score["error"]["estimate"] == pytest.approx(0.2)
    assert version.score["coverage"]["estimate"] == pytest.approx(0.9)
    assert loaded(registry) is None


def test_the_first_champion_is_better_than_the_baseline_and_is_loaded(registry):
    version = champion_of(registry, slope=3.5)
    assert (version.stage, version.promoted_at, version.decision["reason"]) == (
        Stage.CHAMPION,
        NOW,
        "BetterThanBaseline",
    )
    found = loaded(registry, schema_hash=FACTS.schema.hash)
    assert (found.model.slope, found.version, found.refused) == (3.5, version, ())
    assert found.facts.rows == 120


def test_the_same_file_again_is_the_same_version(registry):
    first = registry.register(model_file(contest=contest(0.2)))
    assert registry.register(model_file(contest=contest(0.2))).number == first.number
    registry.consider(first, NOW)
    again = registry.register(model_file(contest=contest(0.2)))
    assert (again.number, again.stage) == (first.number, Stage.CHAMPION)
    assert registry.register(model_file(2.0)).number == 2


def test_models_have_versions_and_champions_of_their_own(registry):
    champion_of(registry)
    champion_of(registry, name="memory")
    assert stages(registry) == {("throughput", 1): "champion", ("memory", 1): "champion"}


def test_a_candidate_without_a_back_test_or_no_better_is_refused_and_the_champion_stays(registry):
    first = champion_of(registry)
    for tested, reason in (
        (None, "NoBackTest"),
        (contest(0.1), "ChampionNotTested"),
        (contest(0.1, champion=("f" * 64, 0.2)), "ChampionNotTested"),
        (contest(0.2, champion=(first.digest, 0.2)), "NoBetter"),
    ):
        version = registry.register(model_file(2.0, contest=tested))
        assert registry.consider(version, NOW).reason == reason
        assert registry.version("throughput", version.number).stage is Stage.REFUSED
        assert registry.version("throughput", version.number).decision["reason"] == reason
    assert registry.version("throughput") == registry.version("throughput", first.number)
    assert loaded(registry).model.slope == 1.0


def test_a_stale_champion_gives_way_to_one_that_is_no_worse(registry):
    first = champion_of(registry)
    version = registry.register(model_file(2.0, contest=contest(0.2, champion=(first.digest, 0.2))))
    assert registry.consider(version, NOW).reason == "NoBetter"
    assert registry.consider(version, NOW, fresh=timedelta(days=2)).reason == "NoBetter"
    assert registry.consider(version, NOW, fresh=timedelta(hours=1)).reason == "NoWorseAndFresher"
    assert loaded(registry).model.slope == 2.0


def test_a_better_one_retires_the_champion_which_can_be_taken_up_again(registry):
    first = champion_of(registry)
    second = successor_of(registry, first)
    assert stages(registry) == {("throughput", 1): "retired", ("throughput", 2): "champion"}
    assert registry.roll_back("throughput", NOW + timedelta(days=2)).number == first.number
    assert stages(registry) == {("throughput", 1): "champion", ("throughput", 2): "refused"}
    assert registry.version("throughput", second.number).decision["reason"] == "TakenBack"
    assert loaded(registry).model.slope == 1.0
    with pytest.raises(NotFound, match="no version was champion before"):
        registry.roll_back("throughput", NOW)
    assert loaded(registry).model.slope == 1.0


@pytest.mark.parametrize("harm", ["damaged", "gone", "foreign", "another model's", "a pickle's", "empty"])
def test_in_the_place_of_a_bad_file_the_last_good_one_is_used(registry, harm, capfd):
    first = champion_of(registry)
    second = successor_of(registry, first)
    file = registry.folder.path / second.file
    if harm == "damaged":
        damage(registry, second)
    elif harm == "gone":
        file.unlink()
    elif harm == "foreign":
        file.write_bytes(np.random.default_rng(0).bytes(5000))
    elif harm == "another model's":
        file.write_bytes(encode(model_file(9.0, name="memory")))
    elif harm == "a pickle's":
        file.write_bytes(b"\x80\x04\x95\x0e\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x8c\x06system\x93.")
    else:
        file.write_bytes(b"")
    found = loaded(registry)
    assert (found.model.slope, found.version.number) == (1.0, first.number)
    assert len(found.refused) == 1
    assert found.refused[0].startswith("throughput version 2 [ModelFile")
    assert [problem != "" for _, problem in registry.verify("throughput")] == [True, False]


def test_a_whole_file_of_somebody_elses_under_a_right_name_is_refused(registry, engine):
    first = champion_of(registry)
    strange = encode(model_file(9.0, name="memory"))
    name = registry.folder.write("throughput", strange)
    with engine.begin() as connection:
        connection.execute(sa.update(ModelVersion).values(file=name))
    assert loaded(registry) is None
    with pytest.raises(CorruptState, match="its file is another version's"):
        registry.read(registry.version("throughput", first.number))
    with engine.begin() as connection:
        connection.execute(sa.update(ModelVersion).values(digest=digest(strange)))
    assert [problem.split()[0] for _, problem in registry.verify()] == ["[OtherModel]"]
    with engine.begin() as connection:
        connection.execute(sa.update(ModelVersion).values(file="../../etc/passwd"))
    with pytest.raises(CorruptState, match="not a name that Convoy gives"):
        registry.read(registry.version("throughput", first.number))


def test_a_champion_of_other_columns_or_of_other_code_isnt_used(registry):
    champion_of(registry)
    assert loaded(registry, schema_hash="0" * 64) is None

    def newer(state: State) -> Line:
        return Line(float(state.tensors["curvature"]))

    assert registry.load("throughput", newer) is None


def test_where_no_former_champion_can_be_read_a_candidate_has_to_beat_the_baseline(registry):
    first = champion_of(registry)
    damage(registry, first)
    version = registry.register(model_file(2.0, contest=contest(0.2)))
    assert registry.consider(version, NOW + timedelta(days=1)).reason == "BetterThanBaseline"
    assert stages(registry) == {("throughput", 1): "retired", ("throughput", 2): "champion"}


def test_a_candidate_whose_file_is_damaged_is_not_promoted_and_nothing_changes(registry):
    first = champion_of(registry)
    version = registry.register(model_file(2.0, contest=contest(0.1, champion=(first.digest, 0.2))))
    damage(registry, version)
    with pytest.raises(CorruptState):
        registry.consider(version, NOW)
    assert stages(registry) == {("throughput", 1): "champion", ("throughput", 2): "candidate"}


def test_somebody_can_refuse_a_candidate_and_only_that(registry):
    first = champion_of(registry)
    version = registry.register(model_file(2.0))
    registry.refuse(version, "fitted to a week of tests", NOW)
    found = registry.version("throughput", version.number)
    assert (found.stage, found.decision["message"]) == (Stage.REFUSED, "fitted to a week of tests")
    with pytest.raises(Unusable, match="only a candidate can be refused"):
        registry.refuse(first, "", NOW)


def test_old_files_go_and_champion_predecessor_and_newest_stay(engine, home):
    registry = Registry(engine, home / "models", keep=2)
    first = champion_of(registry)
    second = successor_of(registry, first)
    for slope in range(3, 8):
        registry.register(model_file(float(slope)))
    kept = [one.number for one in registry.versions("throughput") if one.file]
    assert kept == [7, 6, second.number, first.number]
    assert registry.folder.names() == sorted(one.file for one in registry.versions() if one.file)
    with pytest.raises(Unusable, match="its file was removed, newer ones are there"):
        registry.read(registry.version("throughput", 3))
    assert len(registry.versions("throughput")) == 7


def test_files_that_no_version_names_are_left_alone_and_named(registry, engine):
    stray = registry.folder.write("throughput", encode(model_file(9.0)))
    champion_of(registry)
    assert registry.strays() == [stray]


def test_a_version_that_isnt_there_is_named_with_those_that_are(registry):
    with pytest.raises(NotFound, match="no version in database"):
        registry.version("throughput")
    champion_of(registry)
    with pytest.raises(NotFound, match=r"no version 7 in database .*; there are: 1"):
        registry.version("throughput", 7)


def test_a_folder_that_cannot_be_written_is_named(engine, home):
    (home / "models").write_text("a file")
    with pytest.raises(Unusable, match=r"models folder .*models: .*CONVOY_MODELS_DIR"):
        Registry(engine, home / "models").register(model_file())
    assert Registry(engine, home / "models").versions() == []


def test_a_state_that_cannot_be_written_down_leaves_nothing(registry):
    file = model_file()
    file.state.document["scale"] = float("inf")
    with pytest.raises(InvalidInput, match=r"document\.scale"):
        registry.register(file)
    assert (registry.versions(), registry.folder.names()) == ([], [])


def test_two_who_promote_at_a_time_leave_one_champion(registry, engine, home):
    first = champion_of(registry)
    rivals = [
        registry.register(model_file(float(slope), contest=contest(0.1, champion=(first.digest, 0.2))))
        for slope in range(2, 6)
    ]
    together = threading.Barrier(len(rivals))
    outcomes = []

    def promote(version):
        own = open_engine(engine.url.render_as_string(hide_password=False))
        together.wait(20)
        outcomes.append(Registry(own, home / "models").consider(version, NOW + timedelta(days=1)).reason)
        own.dispose()

    threads = [threading.Thread(target=promote, args=(version,)) for version in rivals]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert sorted(outcomes) == ["Better", *["ChampionNotTested"] * 3]
    assert sorted(stages(registry).values()) == ["champion", "refused", "refused", "refused", "retired"]


def test_models_registered_at_a_time_get_numbers_of_their_own(registry, engine, home):
    together = threading.Barrier(4)

    def register(slope):
        own = open_engine(engine.url.render_as_string(hide_password=False))
        together.wait(20)
        Registry(own, home / "models").register(model_file(float(slope)))
        own.dispose()

    threads = [threading.Thread(target=register, args=(slope,)) for slope in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert sorted(one.number for one in registry.versions("throughput")) == [1, 2, 3, 4]
    assert all(problem == "" for _, problem in registry.verify())


KILLED = "import sys; from support.model_files import go_on; go_on(*sys.argv[1:])"


@pytest.mark.parametrize(
    ("point", "champion"),
    [
        ("files.before-rename", 1.0),
        ("files.after-rename", 1.0),
        ("models.after-file", 1.0),
        ("models.after-row", 1.0),
        ("models.after-register", 1.0),
        ("models.before-commit", 1.0),
        ("models.after-commit", 2.0),
        ("models.before-unlink:3", 2.0),
    ],
)
def test_a_kill_at_any_moment_leaves_a_registry_that_can_be_read_and_gone_on_with(
    engine, store, home, point, champion
):
    registry = Registry(engine, home / "models", keep=1)
    champion_of(registry)
    command = [sys.executable, "-c", KILLED, store, str(home / "models")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CONVOY_CRASH_AT": point}
    killed = subprocess.run(command, env=environment, timeout=50, check=False, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert loaded(registry).model.slope == champion
    assert loaded(registry).refused == ()
    assert all(problem == "" for _, problem in registry.verify())
    go_on(store, str(home / "models"))
    assert loaded(registry).model.slope == 2.0
    assert all(problem == "" for _, problem in registry.verify())
    assert [one.stage for one in registry.versions("throughput")].count(Stage.CHAMPION) == 1


def test_what_a_killed_writer_left_half_written_goes_in_time(registry, home):
    folder = home / "models" / "throughput"
    folder.mkdir(parents=True)
    left, fresh = folder / f".{'a' * 64}.safetensors.0123abcd.tmp", folder / f".{'b' * 64}.safetensors.0123abcd.tmp"
    for file in (left, fresh):
        file.write_bytes(b"half")
    os.utime(left, (0, 0))
    registry.register(model_file())
    assert (left.exists(), fresh.exists()) == (False, True)


@pytest.mark.servers
def test_another_process_that_holds_the_lock_is_named_when_the_wait_ends(mariadb, home, monkeypatch):
    migrate(mariadb)
    engine, other = open_engine(mariadb), open_engine(mariadb)
    monkeypatch.setattr(registry_module, "_LOCK_SECONDS", 0.1)
    with exclusive(other, "models", 1.0), pytest.raises(Unavailable, match="'models' lock"):
        Registry(engine, home / "models").register(model_file())
    engine.dispose()
    other.dispose()


def test_a_back_test_of_odd_numbers_is_stored(registry, engine):
    scores = tuple(JobScore(f"job-{place}", 1, 1e300 * (place % 2), None, None) for place in range(6))
    test = BackTest("candidate", "p", 0.9, "rows", scores)
    tested = type(contest(0.1))(test, test, None)
    version = registry.register(model_file(contest=tested))
    assert registry.consider(version, NOW).reason == "NoBetterThanBaseline"
    with reading(engine) as connection:
        assert connection.execute(sa.select(ModelVersion.metrics)).scalar_one()["decision"]["verdict"] == "keep"
