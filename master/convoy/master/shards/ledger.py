"""The ledger of one data set: which shards were handed out, which are done. Pure.

Shards are ranges of ``shard_size`` records, ordered anew in each epoch where the set is shuffled, by (seed, epoch). A
shard's id is its place in that order, counted through all epochs. So what is done follows from three things: how far
the ledger has handed out (``cursor``), what it hasn't got back (``doing``), what is to be handed out again.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from convoy.core.api.errors import InvalidInput

VERSION = 1


@dataclass(frozen=True, slots=True)
class Spec:
    """What a data set is: ``size`` records in shards of ``shard_size``, passed through ``epochs`` times."""

    name: str
    size: int
    shard_size: int
    epochs: int = 1
    shuffle: bool = False
    seed: int = 0

    @property
    def shards(self) -> int:
        """Shards of one epoch."""
        return -(-self.size // self.shard_size)

    def check(self) -> None:
        """Refuse what can't be.

        Raises:
            InvalidInput: naming the field.
        """
        for name, value, least in (
            ("size", self.size, 1),
            ("shard_size", self.shard_size, 1),
            ("epochs", self.epochs, 1),
        ):
            if value < least:
                raise InvalidInput(f"data set {self.name!r}: {name}: expected {least} or more, not {value}")
        if not self.name:
            raise InvalidInput("data set: name: expected one, got an empty one")
        if self.shards > 10_000_000:
            raise InvalidInput(
                f"data set {self.name!r}: shard_size: {self.shard_size} makes {self.shards} shards an epoch, at most "
                "10,000,000 are kept; choose a larger one"
            )


@dataclass(frozen=True, slots=True)
class Held:
    """Who holds a shard, and by which call it was handed out."""

    holder: str
    incarnation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Range:
    """One shard: records start .. end - 1 of the set, in that epoch."""

    id: int
    epoch: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """Where the set stands."""

    spec: Spec
    cursor: int = 0
    again: tuple[int, ...] = ()  # in the order in which they are handed out
    doing: dict[int, Held] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Shards of all epochs."""
        return self.spec.shards * self.spec.epochs

    @property
    def exhausted(self) -> bool:
        """Whether all shards are done."""
        return self.cursor >= self.total and not self.again and not self.doing

    def range(self, shard: int) -> Range:
        """Return the shard of that id."""
        epoch, place = divmod(shard, self.spec.shards)
        index = _order(self.spec.shards, self.spec.seed, epoch)[place] if self.spec.shuffle else place
        start = index * self.spec.shard_size
        return Range(shard, epoch, start, min(start + self.spec.shard_size, self.spec.size))


def take(ledger: Ledger, holder: Held) -> tuple[Ledger, Range | None]:
    """Hand the next shard out: the same again to a call that is repeated; None while others hold the last ones."""
    for shard, held in ledger.doing.items():
        if held == holder and holder.sequence:
            return ledger, ledger.range(shard)
    if ledger.again:
        shard, again, cursor = ledger.again[0], ledger.again[1:], ledger.cursor
    elif ledger.cursor < ledger.total:
        shard, again, cursor = ledger.cursor, (), ledger.cursor + 1
    else:
        return ledger, None
    taken = replace(ledger, cursor=cursor, again=again, doing={**ledger.doing, shard: holder})
    return taken, ledger.range(shard)


def finish(ledger: Ledger, shard: int, *, failed: bool) -> Ledger:
    """Take a shard back, done or to be handed out again; one that isn't out changes nothing."""
    if shard not in ledger.doing:
        return ledger
    doing = {known: held for known, held in ledger.doing.items() if known != shard}
    again = tuple(sorted((*ledger.again, shard))) if failed else ledger.again
    return replace(ledger, doing=doing, again=again)


def release(ledger: Ledger, holder: str) -> Ledger:
    """Take back all that a holder had, to be handed out again."""
    for shard, held in ledger.doing.items():
        if held.holder == holder:
            ledger = finish(ledger, shard, failed=True)
    return ledger


def to_json(ledger: Ledger) -> dict[str, Any]:
    """Return the ledger as JSON, with who holds what."""
    doing = {str(shard): [held.holder, held.incarnation, held.sequence] for shard, held in ledger.doing.items()}
    spec = {name: getattr(ledger.spec, name) for name in Spec.__slots__}
    return {"version": VERSION, "spec": spec, "cursor": ledger.cursor, "again": list(ledger.again), "doing": doing}


def from_json(document: Any) -> Ledger:
    """Read what ``to_json`` wrote.

    Raises:
        InvalidInput: it isn't that, or a newer version wrote it.
    """
    try:
        if document["version"] > VERSION:
            raise InvalidInput(f"ledger of version {document['version']}: this Convoy knows {VERSION}; upgrade it")
        ledger = Ledger(
            Spec(**document["spec"]),
            int(document["cursor"]),
            tuple(int(shard) for shard in document["again"]),
            {int(shard): Held(held[0], int(held[1]), int(held[2])) for shard, held in document["doing"].items()},
        )
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise InvalidInput(f"ledger: not what a ledger was saved as ({error!r})") from error
    ledger.spec.check()
    shards = (*ledger.again, *ledger.doing)
    if not 0 <= ledger.cursor <= ledger.total or not all(0 <= shard < ledger.cursor for shard in shards):
        raise InvalidInput(f"ledger of {ledger.spec.name!r}: its position lies outside of the set")
    return ledger


def position(ledger: Ledger) -> str:
    """Return the position for a checkpoint's manifest: what is out isn't done, so it is to be handed out again."""
    again = tuple(sorted((*ledger.again, *ledger.doing)))
    return json.dumps(to_json(replace(ledger, again=again, doing={})), separators=(",", ":"))


def restore(ledger: Ledger, text: str) -> Ledger:
    """Return the ledger at a saved position of the same set; what is out now is void.

    Raises:
        InvalidInput: it is the position of another set.
    """
    try:
        saved = from_json(json.loads(text))
    except json.JSONDecodeError as error:
        raise InvalidInput(f"ledger of {ledger.spec.name!r}: not JSON: {error}") from None
    if saved.spec != ledger.spec:
        raise InvalidInput(
            f"ledger of {ledger.spec.name!r}: it was saved for {saved.spec}, this job's set is {ledger.spec}"
        )
    return saved


@lru_cache(maxsize=4)
def _order(shards: int, seed: int, epoch: int) -> tuple[int, ...]:
    order = list(range(shards))
    random.Random(f"convoy {seed} {epoch}").shuffle(order)
    return tuple(order)
