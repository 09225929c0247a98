"""One answer to one question: asked again with nothing new to go by, it has the answer that it had.

A recommendation's identifier follows from the question's key and the time in which it was asked, cut into spans:
callers that ask at once, of Brains that share a store as well, meet in one row. Old answers aren't repeated: time
itself changes them.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta

from sqlalchemy.engine import Engine
from sqlalchemy.orm import Session

from convoy.brain.store.engine import reading
from convoy.brain.store.tables import Recommendation

REPEATED_FOR = timedelta(minutes=5)
_NAMES = uuid.UUID("1d6d9c0e-53ad-4c35-8d5e-0b7b7e7c9a41")
"""Of identifiers that follow from a question's key."""


def said_before(engine: Engine, key: str, now: datetime) -> tuple[str, Recommendation | None]:
    """Return the identifier of the answer to a question, and that answer where it was given lately.

    Args:
        engine: of the store.
        key: of the question.
        now: the moment.

    Raises:
        Unavailable: the database can't be reached now.
    """
    span = int(now.timestamp() // REPEATED_FOR.total_seconds())
    ours, before = (str(uuid.uuid5(_NAMES, f"{key}/{number}")) for number in (span, span - 1))
    with reading(engine) as connection, Session(bind=connection, expire_on_commit=False) as session:
        for identifier in (ours, before):
            found = session.get(Recommendation, identifier)
            if found is not None and now - found.made_at <= REPEATED_FOR:
                return identifier, found
    return ours, None
