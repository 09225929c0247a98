"""The objects of the local cluster in one SQLite file that several processes share.

Operator, masters, shims and commands open the same file. Each change is one transaction that takes the next number of
the one counter as the object's ``resourceVersion`` and is written to a bounded log, from which watches read. Who owns
which field stands in a column of its own and isn't shown in the object.

This module imports nothing heavy (dataclasses would be a tenth of a shim's start).
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple

from convoy.core.api.errors import CorruptState, Expired, Unavailable, UnknownSchema

Manifest = dict[str, Any]
ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

SCHEMA = 1
"""Version of the tables. A later one comes with a migration from each earlier one in ``_MIGRATIONS``."""
KEPT_CHANGES = 5_000
"""Changes that the log keeps, at least; a watch that is further behind must list again."""

_APPLICATION_ID = 0x434E5659  # "CNVY": marks the file as ours
_BUSY_SECONDS = 20.0
_TRIM_EVERY = 250
_TABLES = """
CREATE TABLE objects (
    kind TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
    uid TEXT NOT NULL, version INTEGER NOT NULL, controller TEXT, manifest TEXT NOT NULL, owners TEXT NOT NULL,
    PRIMARY KEY (kind, namespace, name)
) WITHOUT ROWID;
CREATE UNIQUE INDEX objects_by_uid ON objects (uid);
CREATE INDEX objects_by_controller ON objects (controller) WHERE controller IS NOT NULL;
CREATE TABLE changes (
    version INTEGER PRIMARY KEY,
    type TEXT NOT NULL, kind TEXT NOT NULL, namespace TEXT NOT NULL, manifest TEXT NOT NULL
);
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO counters VALUES ('version', 0), ('trimmed', 0);
"""
_MIGRATIONS: dict[int, str] = {}


class Stored(NamedTuple):
    """An object as it stands, and which manager owns which of its fields (see ``apply``)."""

    manifest: Manifest
    owners: dict[str, Any]

    @property
    def uid(self) -> str:
        """The object's uid."""
        return str(self.manifest["metadata"]["uid"])

    @property
    def version(self) -> str:
        """The object's resourceVersion."""
        return str(self.manifest["metadata"]["resourceVersion"])


class Transaction:
    """Reads and writes that happen together or not at all; nobody else writes meanwhile."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def get(self, kind: str, namespace: str, name: str) -> Stored | None:
        """Return the object, or None."""
        return _get(self._connection, kind, namespace, name)

    def objects(self, kind: str) -> list[Stored]:
        """Return all objects of a kind."""
        rows = self._connection.execute("SELECT manifest, owners FROM objects WHERE kind = ?", (kind,))
        return [Stored(json.loads(manifest), json.loads(owners)) for manifest, owners in rows]

    def exists(self, uid: str) -> bool:
        """Whether an object has that uid."""
        return self._connection.execute("SELECT 1 FROM objects WHERE uid = ?", (uid,)).fetchone() is not None

    def controlled_by(self, uid: str) -> list[Stored]:
        """Return the objects whose controlling owner has that uid."""
        rows = self._connection.execute("SELECT manifest, owners FROM objects WHERE controller = ?", (uid,))
        return [Stored(json.loads(manifest), json.loads(owners)) for manifest, owners in rows]

    def put(self, manifest: Manifest, owners: dict[str, Any]) -> Manifest:
        """Insert or replace the object under the next resourceVersion, and return it."""
        kind, namespace, name = key(manifest)
        version, new = self._advance(manifest)
        text = _dump(new)
        uid = manifest["metadata"]["uid"]
        known = self._connection.execute(
            "UPDATE objects SET version = ?, controller = ?, manifest = ?, owners = ? "
            "WHERE kind = ? AND namespace = ? AND name = ? AND uid = ?",
            (version, controller(new), text, _dump(owners), kind, namespace, name, uid),
        ).rowcount
        if not known:
            self._connection.execute(
                "INSERT INTO objects VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (kind, namespace, name, uid, version, controller(new), text, _dump(owners)),
            )
        self._log(version, "MODIFIED" if known else "ADDED", kind, namespace, text)
        return new

    def put_owners(self, manifest: Manifest, owners: dict[str, Any]) -> None:
        """Note who owns the fields of an object that itself didn't change; nobody who watches hears of it."""
        self._connection.execute(
            "UPDATE objects SET owners = ? WHERE kind = ? AND namespace = ? AND name = ?",
            (_dump(owners), *key(manifest)),
        )

    def remove(self, manifest: Manifest) -> None:
        """Delete the object; its last state, under the deletion's version, goes to those who watch."""
        kind, namespace, name = key(manifest)
        version, last = self._advance(manifest)
        self._connection.execute(
            "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", (kind, namespace, name)
        )
        self._log(version, "DELETED", kind, namespace, _dump(last))

    def _advance(self, manifest: Manifest) -> tuple[int, Manifest]:
        self._connection.execute("UPDATE counters SET value = value + 1 WHERE name = 'version'")
        version = _counter(self._connection, "version")
        metadata = {**manifest["metadata"], "resourceVersion": str(version)}
        return version, {**manifest, "metadata": metadata}

    def _log(self, version: int, change: ChangeType, kind: str, namespace: str, text: str) -> None:
        self._connection.execute(
            "INSERT INTO changes VALUES (?, ?, ?, ?, ?)", (version, change, kind, namespace, text)
        )
        if version % _TRIM_EVERY == 0:
            oldest = version - KEPT_CHANGES
            self._connection.execute("DELETE FROM changes WHERE version <= ?", (oldest,))
            self._connection.execute("UPDATE counters SET value = max(value, ?) WHERE name = 'trimmed'", (oldest,))


class Store:
    """One process's access to the file; safe to share between its threads, not across a fork."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[sqlite3.Connection] = []
        self._guard = threading.Lock()
        self._closed = False
        # Only where it isn't there: closing any descriptor of the file drops all locks that this process has on it,
        # those of another Store too, and then another process's end removes the log that is written to here.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        try:
            with self.connection() as connection:
                _prepare(connection, path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise Unavailable(f"{path}: {error}; is the disk full, or another process stuck?") from error
            raise CorruptState(f"{path}: {error}; move it away to start anew") from error

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection; each is used by one thread at a time.

        Raises:
            Unavailable: another process held the file for too long, or it can't be used now.
        """
        with self._guard:
            if self._closed:
                raise Unavailable(f"{self.path} was closed by this process; open the cluster again")
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            yield connection
        except sqlite3.OperationalError as error:
            raise Unavailable(f"{self.path}: {error}; is the disk full, or another process stuck?") from error
        finally:
            with self._guard:
                if self._closed or connection.in_transaction:  # a transaction that couldn't be ended ends with it
                    connection.close()
                else:
                    self._idle.append(connection)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Begin a transaction; it is committed at the end, or undone if an exception passes.

        Raises:
            Unavailable: another process held the file for too long, or it can't be written.
        """
        with self.connection() as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield Transaction(connection)
                except BaseException:
                    connection.execute("ROLLBACK")
                    raise
                connection.execute("COMMIT")
            except sqlite3.OperationalError as error:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise Unavailable(f"{self.path}: {error}; is the disk full, or another process stuck?") from error

    def get(self, kind: str, namespace: str, name: str) -> Stored | None:
        """Return the object, or None."""
        with self.connection() as connection:
            return _get(connection, kind, namespace, name)

    def objects(self, kind: str, namespace: str | None = None) -> tuple[list[Manifest], int]:
        """Return the objects of a kind in the order of their names, and the version at which they stood so."""
        where, values = (
            ("kind = ?", [kind]) if namespace is None else ("kind = ? AND namespace = ?", [kind, namespace])
        )
        with self.connection() as connection, _snapshot(connection):
            version = _counter(connection, "version")
            rows = connection.execute(f"SELECT manifest FROM objects WHERE {where} ORDER BY namespace, name", values)
            return [json.loads(text) for (text,) in rows], version

    def texts(self, kind: str) -> list[tuple[str, int, str]]:
        """Return (uid, version, JSON) of the objects of a kind, unparsed, for a reader that remembers versions."""
        with self.connection() as connection:
            return connection.execute("SELECT uid, version, manifest FROM objects WHERE kind = ?", (kind,)).fetchall()

    def changes(
        self, kind: str, since: int, namespace: str | None = None, limit: int = 500
    ) -> tuple[list[tuple[ChangeType, Manifest]], int]:
        """Return up to ``limit`` changes after ``since``, in order, and the version from which to go on.

        Raises:
            Expired: changes that old were trimmed, or the file is younger than ``since``.
        """
        where, values = "version > ? AND kind = ?", [since, kind]
        if namespace is not None:
            where, values = where + " AND namespace = ?", [*values, namespace]
        with self.connection() as connection, _snapshot(connection):
            latest, trimmed = _counter(connection, "version"), _counter(connection, "trimmed")
            if since < trimmed or since > latest:
                raise Expired(f"changes since {since} aren't kept, only {trimmed} to {latest}: list again")
            if since == latest:
                return [], latest
            rows = connection.execute(
                f"SELECT version, type, manifest FROM changes WHERE {where} ORDER BY version LIMIT ?",
                [*values, limit],
            ).fetchall()
        cursor = rows[-1][0] if len(rows) == limit else latest
        return [(change, json.loads(text)) for _, change, text in rows], cursor

    def data_version(self, connection: sqlite3.Connection) -> int:
        """Return a number that moves when another connection commits."""
        return int(connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Close the connections; those that are lent close when they come back."""
        with self._guard:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=64
        )
        # NORMAL: a kill of any process loses nothing; a power cut may lose the last moments, never the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection


def key(manifest: Manifest) -> tuple[str, str, str]:
    """Return (kind, namespace, name); what has no namespace has ``""``."""
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def controller(manifest: Manifest) -> str | None:
    """Return the uid of the owner whose end ends this object: the controller, else the only or first owner."""
    owners = manifest["metadata"].get("ownerReferences") or []
    chosen = next((owner for owner in owners if owner.get("controller")), owners[0] if owners else None)
    return chosen.get("uid") if chosen else None


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == SCHEMA and connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID:
        return
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        ours = connection.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION_ID
        empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
        if not ours and not empty:
            raise CorruptState(f"{path}: a database, but not of a Convoy cluster; move it away to start anew")
        if version > SCHEMA:
            raise UnknownSchema(f"{path}: schema {version} is newer than {SCHEMA}; upgrade Convoy")
        scripts = [_TABLES] if empty else [_MIGRATIONS[step] for step in range(version, SCHEMA)]
        for statement in ";".join(scripts).split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@contextmanager
def _snapshot(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    finally:
        connection.execute("COMMIT")


def _get(connection: sqlite3.Connection, kind: str, namespace: str, name: str) -> Stored | None:
    row = connection.execute(
        "SELECT manifest, owners FROM objects WHERE kind = ? AND namespace = ? AND name = ?", (kind, namespace, name)
    ).fetchone()
    return None if row is None else Stored(json.loads(row[0]), json.loads(row[1]))


def _counter(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute("SELECT value FROM counters WHERE name = ?", (name,)).fetchone()[0])


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
