"""The registry: candidates come in, a champion is chosen by back-test, and the last good one is what is loaded.

A file is written before its row, and a row forgets its file before that is removed: a kill at any moment leaves rows
whose files are there. Who changes something holds the store's lock ``models`` (on SQLite: its writing transaction):
of two who promote at a time the second decides with the first one's champion in sight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Generic, TypeVar

from sqlalchemy.engine import Connection, Engine

from convoy.brain.models.registry.codec import ModelFile, decode, digest, encode
from convoy.brain.models.registry.facts import Facts
from convoy.brain.models.registry.promotion import Promotion, Verdict, decide, decide_first
from convoy.brain.models.state import State
from convoy.brain.store.engine import reading, shown, writing
from convoy.brain.store.locks import exclusive
from convoy.brain.store.model_files import versions
from convoy.brain.store.model_files.folder import Folder
from convoy.brain.store.model_files.versions import Stage, Version
from convoy.core.api.errors import ConvoyError, CorruptState, NotFound, StateError, Unusable
from convoy.core.process import logs
from convoy.core.process.crashpoint import crash_point

log = logs.get("brain.models")
M = TypeVar("M")

_LOCK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Loaded(Generic[M]):
    """A model out of its file.

    Attributes:
        model: restored.
        version: it is.
        facts: of its file.
        refused: why those that were to be used before it can't be; empty: it is the champion itself.
    """

    model: M
    version: Version
    facts: Facts
    refused: tuple[str, ...]


class Registry:
    """The registry of one store. Safe to use from several threads and processes."""

    def __init__(self, engine: Engine, folder: Path, *, keep: int = 5) -> None:
        self._engine = engine
        self.folder = Folder(folder)
        self._keep = keep

    def register(self, file: ModelFile) -> Version:
        """Add a fitted model as a candidate; the same file again is the same version.

        Raises:
            InvalidInput: its state can't be written down.
            Unusable: the folder can't be written.
            Unavailable: the database can't be reached, or somebody held the lock all the time.
        """
        content = encode(file)
        with self._changing() as connection:
            name = self.folder.write(file.facts.name, content)
            crash_point("models.after-file")
            number = versions.add(connection, file.facts, digest(content), name)
            crash_point("models.after-row")
        crash_point("models.after-register")
        found = self.version(file.facts.name, number)
        log.info("model registered", model=found.name, version=found.number, stage=found.stage.value, file=found.file)
        self._prune(found.name)
        return found

    def versions(self, name: str | None = None) -> list[Version]:
        """Return the versions of a model, or of all, newest first.

        Raises:
            Unavailable: the database can't be reached.
        """
        with reading(self._engine) as connection:
            return versions.listed(connection, name)

    def champion(self, name: str) -> Version | None:
        """Return the version that is a model's champion, None where there is none. Its file isn't looked at.

        Raises:
            Unavailable: the database can't be reached.
        """
        with reading(self._engine) as connection:
            return next(iter(versions.listed(connection, name, Stage.CHAMPION)), None)

    def version(self, name: str, number: int | None = None) -> Version:
        """Return a version; without a number the champion, else the newest.

        Raises:
            NotFound: there is none.
            Unavailable: the database can't be reached.
        """
        found = self.versions(name)
        if number is None:
            ordered = sorted(found, key=lambda one: one.stage is not Stage.CHAMPION)
        else:
            ordered = [one for one in found if one.number == number]
        if not ordered:
            there = ", ".join(str(one.number) for one in found) or "none"
            which = "no version" if number is None else f"no version {number}"
            raise NotFound(
                f"model {name!r}: {which} in database {shown(self._engine.url)}; there are: {there}. Fit one with "
                "`convoy brain fit`",
                reason="NoSuchVersion",
            )
        return ordered[0]

    def read(self, version: Version, schema_hash: str | None = None) -> ModelFile:
        """Return what a version's file holds, having checked all of it.

        Raises:
            StateError: it was damaged, isn't ours, is another model's, or fitted to other columns.
            Unusable: it isn't there.
        """
        if not version.file:
            raise Unusable(f"{version.shown}: its file was removed, newer ones are there", reason="ModelFileMissing")
        content = self.folder.read(version.file)
        if digest(content) != version.digest:
            raise CorruptState(f"{version.shown}: its file is another version's", reason="ModelFileForeign")
        return decode(content, name=version.name, schema_hash=schema_hash)

    def load(self, name: str, restore: Callable[[State], M], *, schema_hash: str | None = None) -> Loaded[M] | None:
        """Return the champion, restored; where its file can't be used, the last good one before it; else None.

        Args:
            name: of the model.
            restore: makes the model of its state.
            schema_hash: of the columns that it will be asked with; None: any.

        Raises:
            Unavailable: the database can't be reached.
        """
        refused: list[str] = []
        for version in versions.last_good_first(self.versions(name)):
            try:
                file = self.read(version, schema_hash)
                model = _restored(version, file, restore)
            except ConvoyError as error:
                refused.append(f"{version.shown} [{error.reason}]: {error}")
                log.warning(
                    "model file refused", model=name, version=version.number, reason=error.reason, why=str(error)
                )
                continue
            if refused:
                log.warning("the last good model is used", model=name, version=version.number)
            return Loaded(model, version, file.facts, tuple(refused))
        return None

    def consider(self, version: Version, now: datetime, *, fresh: timedelta | None = None) -> Promotion:
        """Decide by back-test whether a version becomes the champion, and act on it.

        Args:
            version: a candidate, or one that was decided about before.
            now: the moment (UTC).
            fresh: a champion that was fitted longer ago is stale (``promotion.decide``); None: none ever is.

        Raises:
            StateError, Unusable: its file can't be used; nothing was changed.
            NotFound: it is gone.
            Unavailable: the database can't be reached, or somebody held the lock all the time.
        """
        contest = self.read(version).facts.contest
        with self._changing() as connection:
            known = versions.listed(connection, version.name)
            current = next((one for one in known if one.digest == version.digest), None)
            if current is None:
                raise NotFound(f"{version.shown}: it is gone", reason="NoSuchVersion")
            champion = self._last_good(known)
            candidate = None if contest is None else contest.candidate
            if champion is None:
                decision = decide_first(candidate, None if contest is None else contest.baseline)
            elif champion.digest == current.digest and current.stage is Stage.CHAMPION:
                decision = Promotion(Verdict.KEEP, "IsChampion", "it is the champion already", {})
            else:
                rival = None if contest is None else contest.champion
                tested = rival if rival is not None and rival.of == champion.digest else None
                stale = fresh is not None and now - champion.created_at > fresh
                decision = decide(tested, candidate, champion_is_stale=stale)
            if decision.verdict is Verdict.PROMOTE:
                versions.promote(connection, current, decision, now)
            else:
                versions.refuse(connection, current, decision, now)
            crash_point("models.before-commit")
        crash_point("models.after-commit")
        _told(current, decision)
        return decision

    def note_feedback(self, version: Version, document: dict[str, Any], now: datetime) -> None:
        """Write down how right a version was about plans that were carried out, in place of what was known of that.

        Raises:
            Unavailable: the database can't be reached, or somebody held the lock all the time.
        """
        with self._changing() as connection:
            versions.note_feedback(connection, version, document, now)

    def refuse(self, version: Version, why: str, now: datetime) -> None:
        """Write down that somebody decided against a candidate.

        Raises:
            Unusable: it is no candidate.
            Unavailable: the database can't be reached, or somebody held the lock all the time.
        """
        decision = Promotion(Verdict.KEEP, "RefusedByHand", why or "somebody decided so", {})
        with self._changing() as connection:
            known = versions.listed(connection, version.name)
            current = next((one for one in known if one.digest == version.digest), version)
            if current.stage is not Stage.CANDIDATE:
                raise Unusable(
                    f"{current.shown}: it is {current.stage.value}, and only a candidate can be refused; a champion "
                    "is taken back with `convoy brain models rollback`",
                    reason="NoCandidate",
                )
            versions.refuse(connection, current, decision, now)
        _told(current, decision)

    def roll_back(self, name: str, now: datetime) -> Version:
        """Make the last good one before the champion the champion again; return it. The later one is refused.

        Raises:
            NotFound: there is none whose file can be used; nothing was changed.
            Unavailable: the database can't be reached, or somebody held the lock all the time.
        """
        with self._changing() as connection:
            known = versions.listed(connection, name)
            later = [one for one in known if one.stage is Stage.CHAMPION]
            former = self._last_good([one for one in known if one not in later])
            if former is None:
                raise NotFound(
                    f"model {name!r}: no version was champion before whose file can be used",
                    reason="NoFormerChampion",
                )
            decision = Promotion(Verdict.PROMOTE, "RolledBack", "somebody took the later champion back", {})
            versions.promote(connection, former, decision, now)
            for one in later:
                versions.take_back(
                    connection, one, Promotion(Verdict.KEEP, "TakenBack", f"for {former.shown}", {}), now
                )
            crash_point("models.before-commit")
        _told(former, decision)
        return self.version(name, former.number)

    def verify(self, name: str | None = None) -> list[tuple[Version, str]]:
        """Return all versions whose files are kept, each with what is wrong with its file; "" where nothing is.

        Raises:
            Unavailable: the database can't be reached.
        """
        return [(version, self._problem(version)) for version in self.versions(name) if version.file]

    def strays(self) -> list[str]:
        """Return the names of files in the folder that no version of this store names.

        Raises:
            Unavailable: the database can't be reached.
        """
        named = {version.file for version in self.versions()}
        return [name for name in self.folder.names() if name not in named]

    def _prune(self, name: str) -> None:
        """Remove files of versions that are neither champion, nor its predecessor, nor among the newest."""
        with self._changing() as connection:
            known = versions.listed(connection, name)
            good = [one for one in versions.last_good_first(known) if not self._problem(one)]
            needed = {one.digest for one in (*good[:2], *known[: self._keep])}
            gone = [one for one in known if one.file and one.digest not in needed]
            for version in gone:
                versions.forget_file(connection, version)
        crash_point("models.before-unlink")
        with self._changing() as connection:  # a row may have got its file back meanwhile
            for version in versions.listed(connection, name):
                if not version.file:
                    self.folder.remove(f"{name}/{version.digest}.safetensors")
            self.folder.remove_abandoned()
        if gone:
            log.info("old model files removed", model=name, versions=[version.number for version in gone])

    def _last_good(self, known: list[Version]) -> Version | None:
        return next((one for one in versions.last_good_first(known) if not self._problem(one)), None)

    def _problem(self, version: Version) -> str:
        try:
            self.read(version)
        except ConvoyError as error:
            return f"[{error.reason}] {error}"
        return ""

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with exclusive(self._engine, "models", _LOCK_SECONDS), writing(self._engine) as connection:
            yield connection


def _restored(version: Version, file: ModelFile, restore: Callable[[State], M]) -> M:
    try:
        return restore(file.state)
    except ConvoyError:
        raise
    except Exception as error:  # of a state that other code wrote, anything may be missing
        raise StateError(
            f"{version.shown}: its state isn't what this model's code reads ({type(error).__name__}: {error}). "
            f"Convoy {version.code_version} wrote it; fit it anew with `convoy brain fit`",
            reason="ModelStateUnreadable",
        ) from error


def _told(version: Version, decision: Promotion) -> None:
    log.info(
        "model promoted" if decision.verdict is Verdict.PROMOTE else "model not promoted",
        model=version.name,
        version=version.number,
        reason=decision.reason,
        message=decision.message,
    )
