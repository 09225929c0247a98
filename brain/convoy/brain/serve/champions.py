"""The registry's champion, as the Brain that serves uses it: only while it is fresh and fits the frames.

Stale is a champion that was fitted too long ago, or before somebody imported history: what it doesn't know of, the
store does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from convoy.brain.features.observations import OBSERVATIONS
from convoy.brain.features.schema import schema_of
from convoy.brain.models.registry.kinds import kind_of
from convoy.brain.store.model_files import Loaded, Registry
from convoy.brain.store.tables import HistoryObservation

MODEL = "throughput"
LAST_IMPORT = sa.select(sa.func.max(HistoryObservation.imported_at))


@dataclass(frozen=True, slots=True)
class Usable:
    """Whether there is a champion to use.

    Attributes:
        digest: of its file; "" where none is to be used.
        why: a stable reason for that: ``NoChampion``, ``ChampionStale``, ``HistoryImported``, ``OtherColumns``; "".
    """

    digest: str
    why: str


class Champions:
    """Looks for the throughput model's champion.

    Args:
        registry: of the store.
        fresh: how long after its fit a champion is used.
    """

    def __init__(self, registry: Registry, fresh: timedelta) -> None:
        self._registry = registry
        self._fresh = fresh
        self._schema_hash = schema_of(OBSERVATIONS).hash

    def usable(self, now: datetime, last_import: datetime | None) -> Usable:
        """Return whether the champion is to be used, by its row alone.

        Args:
            now: the moment (UTC).
            last_import: when history was imported last; None: never.

        Raises:
            Unavailable: the database can't be reached now.
        """
        champion = self._registry.champion(MODEL)
        if champion is None:
            return Usable("", "NoChampion")
        why = self._stale(champion.created_at, now, last_import)
        if not why and champion.schema_hash != self._schema_hash:
            why = "OtherColumns"
        return Usable("" if why else champion.digest, why)

    def load(self, now: datetime, last_import: datetime | None) -> Loaded[Any] | None:
        """Return the champion, or the last good one before it, if that is fresh too; None: there is none to use.

        Raises:
            Unavailable: the database can't be reached now.
        """
        restore: Any = kind_of(MODEL).model().restored
        found: Loaded[Any] | None = self._registry.load(MODEL, restore, schema_hash=self._schema_hash)
        if found is None or self._stale(found.facts.created_at, now, last_import):
            return None
        return found

    def _stale(self, created_at: datetime, now: datetime, last_import: datetime | None) -> str:
        if last_import is not None and last_import > created_at:
            return "HistoryImported"
        return "ChampionStale" if now - created_at > self._fresh else ""
