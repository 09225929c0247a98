"""What a database's driver raises, in the words of our own tree. Passwords never pass through here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from convoy.core.api.errors import ConvoyError, InvalidInput, Unavailable, Unusable

_REMEDY = "set the URL with --database-url or CONVOY_DATABASE_URL"
AWAY = (
    "is the server up, are host and port right? Set the URL with --database-url or CONVOY_DATABASE_URL; what starts "
    "before its server waits for it as long as CONVOY_DATABASE_WAIT_SECONDS says"
)
"""What to do about a server that gives no answer."""
_DENIED = frozenset({1044, 1045, 1130, 1142, 1143, 1227, 1698, 1820})
_NO_DATABASE = 1049
_NO_TABLE = frozenset({1146, 1054})
_AGAIN = frozenset({1205, 1213, 3024})
"""Lock wait timeout, deadlock, statement time: the transaction was undone and can be tried again."""


def again(error: BaseException) -> bool:
    """Return whether the same transaction may succeed at once when it is tried again."""
    return isinstance(error, DBAPIError) and _number(error) in _AGAIN


def refuses_value(error: BaseException) -> bool:
    """Return whether a value doesn't fit its column, or breaks a rule of the schema. No retry will store it."""
    return isinstance(error, DataError | IntegrityError)


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Turn a driver's errors that aren't a mistake of ours into our tree's.

    Raises:
        InvalidInput: it refuses a value: sending it again doesn't help.
        Unavailable: the database can't be reached, or is too busy now.
        Unusable: it refuses us, or holds no schema of Convoy's.
    """
    try:
        yield
    except PoolTimeout:
        raise Unavailable(
            f"database {_place(url)}: all connections are in use; try again later", reason="DatabaseBusy"
        ) from None
    except DBAPIError as error:
        failure = _failure(error, url)
        if failure is None:
            raise
        raise failure from error


def _failure(error: DBAPIError, url: URL) -> ConvoyError | None:
    number, text = _number(error), text_of(error)
    if number in _NO_TABLE or "no such table" in text or "no such column" in text:
        return Unusable(
            f"database {_place(url)}: it doesn't hold this version's schema ({text}); run `convoy brain migrate`",
            reason="SchemaMissing",
        )
    if number in _DENIED or number == _NO_DATABASE:
        return unusable(error, url)
    if refuses_value(error):
        return InvalidInput(
            f"database {_place(url)}: it refuses a value ({text}); correct it, sending it again changes nothing",
            reason="ValueRefused",
        )
    if again(error) or "database is locked" in text:
        return Unavailable(f"database {_place(url)}: busy ({text}); try again later", reason="DatabaseBusy")
    if error.connection_invalidated or isinstance(error, OperationalError | InterfaceError):
        return Unavailable(f"database {_place(url)}: {text}; try again later", reason="DatabaseUnreachable")
    return None


def unusable(error: BaseException, url: URL) -> Unusable:
    """Return why a database can't be used, from what connecting to it raised."""
    number, text, place = _number(error), text_of(error), _place(url)
    if number in _DENIED:
        return Unusable(
            f"database {place}: the server refuses user {url.username!r} ({text}); check user, password and grants; "
            f"{_REMEDY}",
            reason="DatabaseDenied",
        )
    if number == _NO_DATABASE:
        return Unusable(
            f"database {place}: the server has no database {url.database!r}; create it with CREATE DATABASE "
            f"{url.database} CHARACTER SET utf8mb4, or {_REMEDY}",
            reason="DatabaseMissing",
        )
    if "not a database" in text:
        return Unusable(f"database {place}: the file isn't a SQLite database; {_REMEDY}", reason="DatabaseForeign")
    return Unusable(f"database {place}: {text}; {AWAY}", reason="DatabaseUnreachable")


def _place(url: URL) -> str:
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return f"{url.database} at {url.host or 'localhost'}:{url.port or 3306}"


def _number(error: BaseException) -> int:
    original = error.orig if isinstance(error, DBAPIError) else error
    arguments = getattr(original, "args", ())
    return arguments[0] if arguments and isinstance(arguments[0], int) else 0


def text_of(error: BaseException) -> str:
    """Return what the database itself said, in one sentence."""
    original = error.orig if isinstance(error, DBAPIError) else error
    arguments = getattr(original, "args", ())
    return str(arguments[-1]) if arguments else str(original)
