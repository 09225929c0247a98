from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from convoy.core.api.envelope import Envelope
from convoy.core.api.errors import CorruptState, InvalidInput, NotFound, StaleIncarnation, Unusable
from convoy.master import keys as keys_of_a_job
from convoy.master.keys import Keys
from convoy.master.shards import ledger as ledgers
from convoy.master.shards.book import Book
from convoy.master.shards.ledger import Held, Ledger, Spec

SPECS = st.builds(
    Spec,
    st.just("d"),
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(1, 3),
    st.booleans(),
    st.integers(0, 5),
)


def records(spec: Spec, shards: list[ledgers.Range]) -> dict[tuple[int, int], int]:
    counted: dict[tuple[int, int], int] = {}
    for shard in shards:
        for record in range(shard.start, shard.end):
            counted[shard.epoch, record] = counted.get((shard.epoch, record), 0) + 1
    return counted


@given(spec=SPECS, choices=st.lists(st.integers(0, 5), max_size=300))
def test_each_record_of_each_epoch_is_done_exactly_once_whatever_is_lost_on_the_way(spec, choices):
    ledger, done, out, sequence = Ledger(spec), [], {}, 0
    steps = iter(choices)
    while not ledger.exhausted:
        choice = next(steps, 0)
        holder = f"node{choice % 3}"
        if choice < 3:
            sequence += 1
            held = Held(holder, 1, sequence)
            ledger, shard = ledgers.take(ledger, held)
            if shard is not None:
                again, same = ledgers.take(ledger, held)
                assert same == shard, "a repeated call gets the same shard"
                assert again is ledger
                out[shard.id] = (holder, shard)
        if choice == 3:
            ledger = ledgers.release(ledger, "node0")
            out = {shard: held for shard, held in out.items() if held[0] != "node0"}
        elif choice == 4 and out:
            ledger = ledgers.finish(ledger, next(iter(out)), failed=True)
            out.pop(next(iter(out)))
        elif out and (choice == 5 or len(out) > 4 or ledger.cursor == ledger.total):
            shard_id, (_, shard) = out.popitem()
            ledger = ledgers.finish(ledger, shard_id, failed=False)
            done.append(shard)
        assert ledgers.from_json(json.loads(json.dumps(ledgers.to_json(ledger)))) == ledger
    counted = records(spec, done)
    assert counted == {(epoch, record): 1 for epoch in range(spec.epochs) for record in range(spec.size)}


@given(spec=SPECS, before=st.integers(0, 10), after=st.integers(0, 10))
def test_what_was_done_at_the_checkpoint_and_what_follows_a_restore_are_everything_once(spec, before, after):
    ledger, done = Ledger(spec), []

    def pass_through(ledger: Ledger, most: int) -> Ledger:
        for number in range(most):
            ledger, shard = ledgers.take(ledger, Held("n", 1, len(done) * 1000 + number + 1))
            if shard is None:
                break
            ledger = ledgers.finish(ledger, shard.id, failed=False)
            done.append(shard)
        return ledger

    ledger = pass_through(ledger, before)
    ledger, _ = ledgers.take(ledger, Held("n", 2, 1))  # out at the checkpoint: not done
    saved, at_checkpoint = ledgers.position(ledger), list(done)
    ledger = pass_through(ledger, after)
    done[:] = at_checkpoint
    ledger = pass_through(ledgers.restore(ledger, saved), 10_000)
    assert ledger.exhausted
    assert set(records(spec, done).values()) == {1}


def test_a_shuffled_set_has_another_order_in_each_epoch_and_the_same_in_each_run():
    spec = Spec("d", 100, 1, 2, True, 7)
    first = [Ledger(spec).range(shard).start for shard in range(100)]
    second = [Ledger(spec).range(shard).start for shard in range(100, 200)]
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    assert first[:5] == [Ledger(Spec("d", 100, 1, 2, True, 7)).range(shard).start for shard in range(5)]


@pytest.mark.parametrize(
    ("size", "shard_size", "what"), [(0, 1, "size"), (5, 0, "shard_size"), (1 << 40, 1, "larger")]
)
def test_a_set_that_cant_be_is_refused_with_its_field(size, shard_size, what):
    with pytest.raises(InvalidInput, match=what):
        Spec("d", size, shard_size).check()


def test_the_position_of_another_set_is_refused():
    saved = ledgers.position(Ledger(Spec("d", 10, 2)))
    with pytest.raises(InvalidInput, match="saved for"):
        ledgers.restore(Ledger(Spec("d", 12, 2)), saved)
    with pytest.raises(InvalidInput, match="not JSON"):
        ledgers.restore(Ledger(Spec("d", 10, 2)), "{")


class Disk:
    """Keeps the last document of each kind; ``full`` refuses."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.full = False

    async def save(self, kind: str, document: Any) -> None:
        if self.full:
            raise Unusable("the disk is full")
        self.documents[kind] = json.loads(json.dumps(document))


def test_what_couldnt_be_written_didnt_happen():
    async def play() -> None:
        disk = Disk()
        keys, book = Keys(disk.save), Book(disk.save)
        caller = Envelope(sender="n", incarnation=1, sequence=1)
        await keys.set("k", b"old")
        await book.register(Spec("d", 4, 2))
        disk.full = True
        with pytest.raises(Unusable):
            await keys.set("k", b"new")
        with pytest.raises(Unusable):
            await keys.add("n", 1, caller)
        with pytest.raises(Unusable):
            await book.take("d", caller, 0)
        disk.full = False
        assert await keys.get("k", 0) == b"old"
        assert await keys.add("n", 1, caller) == 1
        assert (await book.take("d", caller, 0)).start == 0

    asyncio.run(play())


def test_an_addition_that_is_repeated_counts_once_also_at_the_next_master():
    async def play() -> None:
        disk = Disk()
        keys = Keys(disk.save)
        calls = [Envelope(sender="n", incarnation=1, sequence=number) for number in (1, 2)]
        assert [await keys.add("n", 5, call) for call in (calls[0], calls[0], calls[1])] == [5, 5, 10]
        later = Keys(disk.save, disk.documents["keys"])
        assert await later.add("n", 5, calls[1]) == 10
        assert await later.add("n", 5, Envelope(sender="n", incarnation=2, sequence=2)) == 15
        with pytest.raises(NotFound):
            await later.get("absent", 0)
        await later.set("text", b"abc")
        with pytest.raises(InvalidInput, match="whole number"):
            await later.add("text", 1, calls[0])

    asyncio.run(play())


def test_names_and_number_of_keys_count_towards_what_fits(monkeypatch):
    monkeypatch.setattr(keys_of_a_job, "MOST_BYTES", 100)
    monkeypatch.setattr(keys_of_a_job, "MOST_KEYS", 4)

    async def play() -> None:
        keys = Keys(Disk().save)
        with pytest.raises(InvalidInput, match="101 bytes, at most 100 fit"):
            await keys.set("n" * 99, b"12")
        await keys.set("n" * 97, b"1")
        await keys.delete("n" * 97)
        for number in range(4):
            await keys.set(f"k{number}", b"")
        with pytest.raises(InvalidInput, match="5 keys, at most 4 fit; delete keys"):
            await keys.add("k4", 1, Envelope(sender="n", incarnation=1, sequence=1))
        await keys.set("k0", b"other")
        await keys.delete("k1")
        assert await keys.add("k4", 1, Envelope(sender="n", incarnation=1, sequence=2)) == 1

    asyncio.run(play())


def test_spoilt_keys_are_refused():
    with pytest.raises(CorruptState):
        Keys(Disk().save, {"values": {"k": "!"}, "added": {}})


def test_the_last_shards_come_to_those_who_wait_when_their_holder_is_lost():
    async def play() -> None:
        book = Book(Disk().save)
        await book.register(Spec("d", 2, 2))
        lost = Envelope(sender="lost", incarnation=1, sequence=1)
        other = Envelope(sender="other", incarnation=1, sequence=1)
        await book.take("d", lost, 0)
        waiting = asyncio.ensure_future(book.take("d", other, 5))
        await asyncio.sleep(0.01)
        await book.release(["lost"])
        shard = await waiting
        assert (shard.start, shard.end) == (0, 2)
        end = asyncio.ensure_future(book.take("d", Envelope(sender="x", incarnation=1, sequence=1), 5))
        await asyncio.sleep(0.01)
        await book.finish("d", shard.id, other, failed=False)
        assert await end is None

    asyncio.run(play())


def test_a_shard_is_finished_only_by_the_process_that_holds_it():
    async def play() -> None:
        book = Book(Disk().save)
        await book.register(Spec("d", 2, 2))
        old = Envelope(sender="n", incarnation=1, sequence=1)
        shard = await book.take("d", old, 0)
        await book.release(["n"])
        new = Envelope(sender="n", incarnation=2, sequence=1)
        assert await book.take("d", new, 0) == shard
        for stranger in (old, Envelope(sender="m", incarnation=2, sequence=9)):
            for failed in (False, True):
                with pytest.raises(StaleIncarnation, match="held by n now"):
                    await book.finish("d", shard.id, stranger, failed=failed)
        assert await book.take("d", new, 0) == shard, "it is still out"
        await book.finish("d", shard.id, new, failed=False)
        await book.finish("d", shard.id, new, failed=False)
        assert await book.take("d", new, 0) is None

    asyncio.run(play())


class SlowDisk(Disk):
    """Saves, and returns only when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.saved, self.go_on = asyncio.Event(), asyncio.Event()

    async def save(self, kind: str, document: Any) -> None:
        await super().save(kind, document)
        self.saved.set()
        await self.go_on.wait()


def test_a_call_that_is_given_up_leaves_memory_and_disk_the_same():
    async def give_up(disk: SlowDisk, call: Any) -> None:
        disk.saved.clear()
        disk.go_on.clear()
        waiting = asyncio.ensure_future(call)
        await disk.saved.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        disk.go_on.set()
        await asyncio.sleep(0.01)

    async def play() -> None:
        disk = SlowDisk()
        keys, book = Keys(disk.save), Book(disk.save)
        caller = Envelope(sender="n", incarnation=1, sequence=7)
        await give_up(disk, keys.set("k", b"1"))
        await give_up(disk, keys.add("k", 2, caller))
        assert await keys.get("k", 0) == b"3"
        assert await Keys(disk.save, disk.documents["keys"]).get("k", 0) == b"3"
        await give_up(disk, book.register(Spec("d", 4, 2)))
        await give_up(disk, book.take("d", caller, 0))
        assert book.holders() == Book(disk.save, disk.documents["datasets"]).holders() == {"n"}
        shard = await book.take("d", caller, 0)
        assert shard is not None
        assert shard.id == 0, "the call is repeated and gets what it was given"
        await give_up(disk, book.finish("d", 0, caller, failed=False))
        assert book.holders() == set()
        await give_up(disk, keys.delete("k"))
        assert disk.documents["keys"]["values"] == {}

    asyncio.run(play())
