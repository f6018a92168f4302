"""Waiting for a turn, and giving everything back, over real books."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from configs.deployment import load_deployment
from configs.schema import load
from configs.tenants import Quota, Tenant, TenantConfig
from planning.profile import Profile
from serve_apps.gateway.admission import Admission
from serve_apps.gateway.books import Books, Entry
from serve_apps.gateway.charges import Size, limit_of
from serve_apps.gateway.errors import QuotaExceeded, Unavailable

SMALL = Size(100, 10)
FREE = Tenant("free", TenantConfig())
PAYING = Tenant("paying", TenantConfig(quota=Quota(rate_rt_per_s=1e-6, burst_rt=200)))


@pytest.fixture
def books(tmp_path: Path) -> Iterator[Books]:
    books = Books(f"sqlite:///{tmp_path / 'books.db'}")
    yield books
    books.close()


def admission(books: Books, seats: float = 1, max_queue_s: float = 30) -> Admission:
    profile = load(Profile, load_deployment().gateway.profile)
    return Admission(books, profile, lambda: (seats, 1e9, 1), max_queue_s, long_tokens=1000)


async def until_waiting(admission: Admission, count: int) -> None:
    while admission.waiting != count:  # noqa: ASYNC110  nothing else tells of it
        await asyncio.sleep(0)


async def test_the_next_goes_when_one_leaves(books: Books) -> None:
    door = admission(books)
    first = await door.enter("r1", FREE, SMALL)
    second = asyncio.create_task(door.enter("r2", FREE, SMALL))
    await until_waiting(door, 1)
    first.sent = True
    await door.leave(first, 50.0)
    assert (await second).queue_ms > 0
    assert (door.taken, door.waiting) == (1, 0)


async def test_a_quota_says_what_was_exceeded_and_when_to_come_again(books: Books) -> None:
    door = admission(books, seats=100)
    await door.enter("r1", PAYING, SMALL)
    with pytest.raises(QuotaExceeded, match="paying") as refused:
        await door.enter("r2", PAYING, SMALL)
    assert refused.value.status == 429 and int(refused.value.headers()["retry-after"]) >= 1
    with pytest.raises(QuotaExceeded, match="200 at most"):
        await door.enter("r3", PAYING, Size(2000, 40))
    await door.enter("r4", FREE, SMALL)


async def test_what_never_reached_an_engine_costs_nothing(books: Books) -> None:
    door = admission(books)
    admitted = await door.enter("r1", PAYING, SMALL)
    assert (books.level_rt("paying") or 0) < 100
    await door.leave(admitted)
    assert books.level_rt("paying") == pytest.approx(200)
    await door.leave(admitted)
    assert books.level_rt("paying") == pytest.approx(200)


async def test_what_an_engine_has_is_settled_by_the_engine(books: Books) -> None:
    door = admission(books)
    admitted = await door.enter("r1", PAYING, SMALL)
    reserved = books.level_rt("paying")
    admitted.sent = True
    await door.leave(admitted)
    assert books.level_rt("paying") == reserved
    books.settle([Entry("r1", "paying", "m", limit_of(PAYING.config), 30.0, 20, 0, 2)])
    assert books.level_rt("paying") == pytest.approx(170)


async def test_one_that_leaves_the_queue_leaves_nothing_behind(books: Books) -> None:
    door = admission(books)
    first = await door.enter("r1", FREE, SMALL)
    waiting = asyncio.create_task(door.enter("r2", PAYING, SMALL))
    await until_waiting(door, 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert books.level_rt("paying") == pytest.approx(200)
    first.sent = True
    await door.leave(first)
    assert (door.taken, door.waiting) == (0, 0)


async def test_too_long_a_queue_says_so(books: Books) -> None:
    door = admission(books, max_queue_s=0.01)
    await door.enter("r1", FREE, SMALL)
    with pytest.raises(Unavailable) as refused:
        await door.enter("r2", FREE, SMALL)
    assert refused.value.status == 503 and "retry-after" in refused.value.headers()
    assert door.taken == 1


async def test_long_prompts_go_one_after_the_other_until_their_first_token(books: Books) -> None:
    door = admission(books, seats=100)
    first = await door.enter("r1", FREE, Size(1500, 10))
    second = asyncio.create_task(door.enter("r2", FREE, Size(1500, 10)))
    await until_waiting(door, 1)
    await door.enter("r3", Tenant("other", TenantConfig()), SMALL)
    door.prefilled(first)
    await second
    assert (door.taken, door.waiting) == (3, 0)
