"""A job's tokens and price."""

from typing import Any

import pytest

from batch.plan import Tokens, estimate, measured, priced
from batch.rows import Request
from planning.profile import Profile

PROFILE = Profile(
    model="m", gpu="g", gpus_per_replica=1, usd_per_gpu_hour=3.6, prefill_tokens_per_s=1000, decode_tokens_per_s=1000,
    inter_token_ms=20, kv_bytes_per_token=1, kv_capacity_bytes=10_000, load_time_s=1, memory_bytes=1e9, itl_base_ms=10,
)  # fmt: skip


def request(row: int, prompt: str, **body: Any) -> Request:
    messages = [{"role": "user", "content": prompt}]
    return Request(row, str(row), "m", {"model": "m", "messages": messages, "max_tokens": 10, **body})


def tokenised(one: Request) -> list[int]:
    return [ord(character) for character in one.body["messages"][0]["content"]]


def test_what_rows_share_is_found_in_the_order_that_they_run_in() -> None:
    rows = [request(0, "aaaa1"), request(1, "bbbb1"), request(2, "aaaa2"), request(3, "bbbb2")]
    found = estimate([rows], tokenised, 0.5, block_tokens=2)
    assert found == Tokens(rows=4, asked_rows=4, prompt_tokens=20, cached_tokens=8, output_tokens=20)


def test_equal_rows_are_asked_once() -> None:
    rows = [request(number, "aaaa", temperature=0) for number in range(3)]
    found = estimate([rows], tokenised, 1, block_tokens=1)
    assert (found.rows, found.asked_rows, found.prompt_tokens) == (3, 1, 4)


def test_the_price_is_that_of_the_tokens() -> None:
    tokens = Tokens(rows=100, asked_rows=100, prompt_tokens=36_000, cached_tokens=18_000, output_tokens=1000)
    plan = priced("job", tokens, PROFILE, weights_bytes=1e6)
    assert plan.passes["job"].prefill_gpu_hours == pytest.approx(36_000 / 1000 / 3600), "without any cut"
    assert plan.after["prefix_caching"] == pytest.approx(plan.gpu_hours - 18_000 / 1000 / 3600)
    assert plan.usd == pytest.approx(plan.gpu_hours * 3.6)
    assert plan.bill == "job/prefill"


def test_what_was_measured_is_priced_alike() -> None:
    usage = {"input_tokens": 36_000, "input_tokens_details": {"cached_tokens": 18_000}, "output_tokens": 1000}
    tokens = Tokens(rows=100, asked_rows=100, prompt_tokens=36_000, cached_tokens=18_000, output_tokens=1000)
    assert measured(usage, 100, 100) == tokens
