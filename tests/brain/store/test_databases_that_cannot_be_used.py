import socket
import time

import pytest

from convoy.brain.settings import BrainSettings
from convoy.brain.store.engine import check, open_engine, parse_url, shown
from convoy.core.api.errors import InvalidSetting, Unusable


def refused(url, **options):
    begun = time.monotonic()
    with pytest.raises((Unusable, InvalidSetting)) as caught:
        check(url, **options)
    assert time.monotonic() - begun < 2.0
    assert caught.value.exit_status == 2
    assert "secret" not in str(caught.value)
    assert "CONVOY_DATABASE_URL" in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    "url",
    [
        "",
        "brain.db",
        "mysql//user:secret@host/db",
        "mysql://user:secret@host:port/db",
        "mysql://u:se/cret@@[",
        "mysql://user:p@secret@host/db",
        "mysql://user:p@ss/secret@host:3306/db",
        "mysql://user:p@secret?word@host/db",
        "sqlite://",
    ],
)
def test_what_is_no_url_is_refused_without_its_password(url):
    assert refused(url).reason == "InvalidSetting"


def test_another_kind_of_database_is_refused_by_name():
    assert "'postgresql'" in str(refused("postgresql://user:secret@host/db"))


def test_a_server_url_without_a_database_is_refused():
    with pytest.raises(InvalidSetting, match="names no database") as caught:
        parse_url("mysql://user:secret@host")
    assert "secret" not in str(caught.value)


def test_a_server_that_does_not_listen_is_unreachable():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    error = refused(f"mysql://user:secret@127.0.0.1:{port}/db")
    assert error.reason == "DatabaseUnreachable"
    assert f"127.0.0.1:{port}" in str(error)


def test_a_server_that_says_nothing_is_given_up_in_time():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = refused(f"mysql://user:secret@127.0.0.1:{silent.getsockname()[1]}/db")
    assert error.reason == "DatabaseUnreachable"


def test_a_host_that_is_not_known_is_unreachable():
    assert refused("mysql://user:secret@no-such-host.invalid/db").reason == "DatabaseUnreachable"


def test_a_folder_that_is_not_there_is_named(home):
    assert str(home / "nowhere") in str(refused(f"sqlite:///{home}/nowhere/brain.db"))


def test_a_file_that_is_not_there_is_not_made_when_it_must_exist(home):
    error = refused(f"sqlite:///{home}/brain.db", must_exist=True)
    assert "convoy brain migrate" in str(error)
    assert not (home / "brain.db").exists()


def test_a_file_of_another_kind_is_refused(home):
    (home / "notes.db").write_text("not a database, but longer than a header of one hundred bytes " * 4)
    assert refused(f"sqlite:///{home}/notes.db").reason == "DatabaseForeign"


@pytest.mark.servers
def test_a_wrong_password_is_refused_and_never_shown(mariadb):
    url = parse_url(mariadb).set(password="secret").render_as_string(hide_password=False)
    error = refused(url)
    assert error.reason == "DatabaseDenied"
    assert "user 'convoy'" in str(error)


@pytest.mark.servers
def test_a_missing_database_is_named_with_what_makes_it(mariadb):
    url = parse_url(mariadb).set(database="no_such").render_as_string(hide_password=False)
    assert "CREATE DATABASE no_such" in str(refused(url))


def test_the_default_is_a_file_in_the_state_directory(home):
    url = BrainSettings.load(state_dir=home / "state").database()
    assert url == f"sqlite:///{home}/state/brain.db"
    open_engine(url).dispose()
    assert (home / "state").is_dir()


def test_a_url_is_shown_without_password_and_options():
    assert shown("mysql+pymysql://user:secret@db:3306/convoy?charset=utf8mb4") == "mysql://user:***@db:3306/convoy"
    assert "secret" not in repr(BrainSettings.load(database_url="mysql://user:secret@db/convoy"))
