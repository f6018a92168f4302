"""The books: nothing escapes, nothing is charged twice, and every process sees the same."""

import multiprocessing
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from planning.policies.quota import Limit
from serve_apps.gateway.books import Books, Entry

SLOW = Limit(rate_rt_per_s=1e-6, burst_rt=1000)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state' / 'books.db'}"


@pytest.fixture
def books(url: str) -> Iterator[Books]:
    books = Books(url)
    yield books
    books.close()


def entry(request_id: str, used_rt: float, tokens: tuple[int, int, int] = (0, 0, 0), tenant: str = "acme") -> Entry:
    return Entry(request_id, tenant, "model", SLOW, used_rt, *tokens)


def level(books: Books) -> float:
    return books.level_rt("acme") or 0.0


def test_an_estimate_is_taken_once_and_settled_on_what_was_used(books: Books) -> None:
    assert books.reserve("r1", "acme", SLOW, 600).admitted
    assert books.reserve("r1", "acme", SLOW, 600).admitted
    assert level(books) == pytest.approx(400)
    refused = books.reserve("r2", "acme", SLOW, 600)
    assert not refused.admitted and refused.retry_after_s
    assert books.reserve("r3", "acme", SLOW, 2000).retry_after_s is None
    books.settle([entry("r1", 150, (100, 40, 20))])
    assert level(books) == pytest.approx(850)
    (total,) = books.totals("acme")
    assert (total.requests, total.prompt_tokens, total.cached_tokens, total.output_tokens) == (1, 100, 40, 20)


def test_a_reply_cut_before_its_usage_is_charged_what_was_counted_and_put_right_later(books: Books) -> None:
    books.reserve("r1", "acme", SLOW, 600)
    books.settle([entry("r1", 0)])  # the gateway lost it
    assert level(books) == pytest.approx(1000)
    for _ in range(3):
        books.settle([entry("r1", 150, (100, 0, 20))])  # the engine's meter comes later, and repeats itself
        assert level(books) == pytest.approx(850)
    books.settle([entry("r1", 0)])
    assert level(books) == pytest.approx(850)
    assert [(t.prompt_tokens, t.output_tokens, t.charged_rt) for t in books.totals()] == [(100, 20, 150)]


def test_usage_over_its_estimate_is_a_debt(books: Books) -> None:
    books.reserve("r1", "acme", SLOW, 100)
    books.settle([entry("r1", 1500)])
    assert level(books) == pytest.approx(-500)
    assert not books.reserve("r2", "acme", SLOW, 1).admitted


def test_a_thousand_cut_replies_are_each_charged_once(books: Books) -> None:
    """Whatever the order of the gateway's word, the engine's, and their repetitions."""
    draws = random.Random(7)
    wide = Limit(rate_rt_per_s=1e-6, burst_rt=1e6)
    used = {f"r{i}": draws.uniform(0, 500) for i in range(200)}
    for name in used:
        assert books.reserve(name, "acme", wide, 300).admitted
    words = [Entry(name, "acme", "", wide, 0.0) for name in used]
    words += [Entry(name, "acme", "m", wide, rt, 10, 5, 2) for name, rt in used.items() for _ in range(3)]
    draws.shuffle(words)
    for start in range(0, len(words), 50):
        books.settle(words[start : start + 50])
    assert level(books) == pytest.approx(1e6 - sum(used.values()))
    assert sum(total.prompt_tokens for total in books.totals()) == 2000


def test_a_tenant_without_a_quota_is_written_down_all_the_same(books: Books) -> None:
    books.settle([Entry("r1", "free", "model", None, 5.0, 10, 0, 3)])
    books.settle([Entry("r1", "free", "model", None, 5.0, 10, 0, 3)])
    assert [(t.tenant, t.prompt_tokens, t.output_tokens) for t in books.totals("free")] == [("free", 10, 3)]
    assert books.level_rt("free") is None


def test_the_state_survives_a_restart(url: str) -> None:
    before = Books(url)
    before.reserve("r1", "acme", SLOW, 600)
    before.close()
    after = Books(url)
    assert not after.reserve("r2", "acme", SLOW, 600).admitted
    after.settle([entry("r1", 0)])
    assert after.reserve("r2", "acme", SLOW, 600).admitted
    after.close()


def _reserve_until_refused(url: str, name: str, done: "multiprocessing.Queue[int]") -> None:
    books = Books(url)
    admitted = 0
    while books.reserve(f"{name}-{admitted}", "acme", SLOW, 10).admitted:
        admitted += 1
    done.put(admitted)
    books.close()


def test_several_gateways_are_one_truth(url: str) -> None:
    """1,000 resource tokens are 100 requests of 10, however many processes take them at once."""
    Books(url).close()
    context = multiprocessing.get_context("spawn")
    done = context.Queue()
    processes = [context.Process(target=_reserve_until_refused, args=(url, f"p{i}", done)) for i in range(3)]
    for process in processes:
        process.start()
    counts = [done.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(10)
    assert sum(counts) == 100


def test_totals_are_of_their_time(books: Books) -> None:
    now_s = time.time()
    books.settle([entry("r1", 1, (10, 0, 1))])
    assert books.totals("acme", since_s=now_s - 60)
    assert not books.totals("acme", since_s=now_s + 60)
    assert not books.totals("acme", until_s=now_s - 60)
    assert not books.totals("other")
