"""Leases, takeovers and counts."""

import threading

import pytest
from sqlalchemy import create_engine, inspect

from batch.errors import LeaseLost
from batch.lifecycle import WrongStatus
from batch.store import Store, migrate
from batch.tables import Base, Batch
from tests.batch.conftest import Clock


def made(store: Store, window: str = "24h") -> Batch:
    file = store.add_file("alice", "rows.jsonl", "batch", 10)
    return store.create_batch("alice", "/v1/chat/completions", file.id, window)


def test_the_migrations_make_the_tables_that_the_code_has(database: str) -> None:
    migrate(database)  # again: nothing to do
    found = inspect(create_engine(database))
    for table in Base.metadata.sorted_tables:
        assert {column["name"] for column in found.get_columns(table.name)} == {column.name for column in table.columns}
        assert {index["name"] for index in found.get_indexes(table.name)} == {index.name for index in table.indexes}


def test_the_nearest_deadline_is_claimed_first_and_each_once(store: Store) -> None:
    later, sooner = made(store, "2h"), made(store, "1h")
    assert store.waiting() == 2
    first, second = store.claim("one", 30), store.claim("two", 30)
    assert first is not None and first.id == sooner.id
    assert second is not None and second.id == later.id
    assert store.claim("three", 30) is None
    assert store.waiting() == 0


def test_many_workers_at_once_never_hold_the_same_batch(store: Store) -> None:
    ids = {made(store).id for _ in range(8)}
    held: list[str] = []
    start = threading.Barrier(8)

    def work(name: str) -> None:
        start.wait()
        while (batch := store.claim(name, 30)) is not None or store.waiting():
            if batch is not None:
                held.append(batch.id)

    threads = [threading.Thread(target=work, args=(f"worker-{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(held) == 8 and set(held) == ids


def test_a_dead_workers_batch_is_taken_over_and_the_dead_can_write_nothing(store: Store, clock: Clock) -> None:
    batch = made(store)
    assert store.claim("dead", 30) is not None
    clock.now_s += 20
    store.renew(batch.id, "dead", 30, completed=5)
    clock.now_s += 29
    assert store.claim("heir", 30) is None
    clock.now_s += 2
    heir = store.claim("heir", 30)
    assert heir is not None and heir.completed == 5
    with pytest.raises(LeaseLost):
        store.renew(batch.id, "dead", 30, completed=6)
    with pytest.raises(LeaseLost):
        store.advance(batch.id, "dead", "in_progress")


def test_counts_never_go_down(store: Store) -> None:
    batch = made(store)
    store.claim("worker", 30)
    assert store.renew(batch.id, "worker", 30, completed=5, failed=1).completed == 5
    after = store.renew(batch.id, "worker", 30, completed=3, failed=0)
    assert (after.completed, after.failed) == (5, 1)


def test_a_released_batch_is_free_after_its_pause(store: Store, clock: Clock) -> None:
    batch = made(store)
    store.claim("worker", 30)
    store.release(batch.id, "worker", retry_in_s=10)
    assert store.claim("other", 30) is None
    clock.now_s += 11
    again = store.claim("other", 30)
    assert again is not None and again.fruitless == 1
    store.renew(batch.id, "other", 30, completed=1)
    assert store.batch("alice", batch.id).fruitless == 0


def test_steps_that_the_lifecycle_has_not_are_refused(store: Store) -> None:
    batch = made(store)
    store.claim("worker", 30)
    with pytest.raises(WrongStatus):
        store.advance(batch.id, "worker", "completed")
    assert store.advance(batch.id, "worker", "in_progress", total=3).in_progress_at is not None
    store.cancel("alice", batch.id)
    with pytest.raises(WrongStatus):
        store.advance(batch.id, "worker", "finalizing")
    ended = store.advance(batch.id, "worker", "cancelled")
    assert ended.worker is None and ended.cancelling_at is not None and ended.cancelled_at is not None
    assert store.claim("worker", 30) is None
