"""Ours beside the peers' routing, in one run on the same requests: a hot prefix, many prefixes, equal ones at once."""

from collections.abc import Callable
from typing import Any

import pytest

Simulate = Callable[..., dict[str, Any]]
Make = Callable[..., dict[str, Any]]

ARMS = [
    {"name": "ours"},
    {"name": "power of two", "route": {"rule": "power-of-two"}},
    {"name": "ray", "route": {"rule": "ray-prefix-affinity"}},
    {"name": "llm-d", "route": {"rule": "llm-d-affinity"}},
]


@pytest.fixture(scope="module")
def hot(simulate: Simulate, make_kind: Make, make_stream: Make) -> dict[str, Any]:
    # 60 % of 60 requests a second begin with one prefix: with 0.04 s of suffix each, its home is asked for 1.4 times
    # what it can do. The other forty prefixes together are four times a replica's memory. Warm-up: all are computed
    # once, 3 s each.
    return simulate(
        duration_s=240,
        warmup_s=100,
        fleet={"k": make_kind(replicas=8, kv_capacity_bytes=30_000)},
        streams=[
            make_stream(
                arrivals={"rate_per_s": 60},
                shared={"count": 41, "tokens": 3000, "hot_share": 0.6},
                suffix_tokens={"mean": 40},
                output_tokens={"mean": 5},
            )
        ],
        arms=ARMS,
    )


def test_under_a_hot_prefix_ours_is_ahead_of_all(hot: dict[str, Any]) -> None:
    p95 = {name: arm["ttft_ms"]["p95"] for name, arm in hot.items()}
    assert p95["ours"] < 0.5 * min(p95["power of two"], p95["ray"], p95["llm-d"])
    assert hot["ours"]["cached_share"] > 0.9


def test_where_nothing_is_hot_ours_caches_what_pure_affinity_does(
    simulate: Simulate, make_kind: Make, make_stream: Make
) -> None:
    arms = simulate(
        duration_s=200,
        fleet={"k": make_kind(replicas=8)},
        streams=[
            make_stream(
                arrivals={"rate_per_s": 8},
                suffix_tokens={"mean": 60},
                conversations={"active": 100, "turns": 10},
                shared={"count": 10, "tokens": 300},
            )
        ],
        arms=ARMS,
    )
    assert arms["ours"]["cached_share"] > 0.95 * arms["ray"]["cached_share"]
    assert arms["ours"]["cached_share"] > 1.1 * arms["power of two"]["cached_share"]


def test_equal_prefixes_at_once_are_computed_a_few_times_not_everywhere(
    simulate: Simulate, make_kind: Make, make_stream: Make
) -> None:
    arms = simulate(
        fleet={"k": make_kind(replicas=32)},
        streams=[
            make_stream(
                arrivals={"process": "together", "count": 64},
                shared={"tokens": 3000},
                suffix_tokens={"mean": 100},
                output_tokens={"mean": 2},
            )
        ],
        arms=ARMS,
    )
    ours, spread = arms["ours"], arms["power of two"]
    # 64 · 3,000 tokens; each copy computes 3,000 of them.
    assert 1 - ours["cached_share"] * 3100 / 3000 < 8 / 64 + 0.001
    assert 1 - spread["cached_share"] * 3100 / 3000 > 20 / 64
    # One home alone would end with 3 s and 63 suffixes.
    assert ours["ttft_ms"]["max"] < 3000 + 6300


def test_capacity_weights_keep_the_slow_pool_within_its_means(
    simulate: Simulate, make_kind: Make, make_stream: Make
) -> None:
    arms = simulate(
        duration_s=120,
        fleet={"fast": make_kind(replicas=3), "slow": make_kind(replicas=3, prefill_tokens_per_s=300)},
        streams=[make_stream(arrivals={"rate_per_s": 18}, output_tokens={"mean": 2})],
        objective={"ttft_ms": 1500},
        arms=[{"name": "ours"}, {"name": "count", "route": {"rule": "count-weighted"}}],
    )
    # By count the slow ones get 3 a second each, 1.0 busy; by units all are at 18 · 0.1 / (3 + 0.9) = 0.46.
    assert arms["ours"]["good_share"] > 0.98
    assert arms["count"]["good_share"] < 0.8


def test_a_decision_looks_at_a_bounded_number_of_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    from planning.policies.route import Load, ReplicaRates, RouteConfig, Router

    router = Router(RouteConfig(max_homes=4, candidates=6), seed=1)
    for number in range(1000):
        router.add(number, ReplicaRates(1000, 64, 1e6, 0.01, 0.0))
    looked = 0
    original = Load.wait_ms

    def counted(self: Load, kv_tokens: float, priority: int = 0) -> float:
        nonlocal looked
        looked += 1
        return original(self, kv_tokens, priority)

    monkeypatch.setattr(Load, "wait_ms", counted)
    for _ in range(2000):
        router.route((("hot", 900),), 1000, 10, 0.0)
    assert looked <= 2000 * 10
