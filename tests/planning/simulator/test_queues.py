"""The simulator against queueing theory: one server a replica, one queue in front, service times of known moments."""

from collections.abc import Callable
from typing import Any

import pytest

from planning.clocks import waits_s

SERVICE_S = 0.1
Simulate = Callable[..., dict[str, Any]]


def mean_wait_s(
    simulate: Simulate, servers: int, load: float, shape: dict[str, Any], requests: int, seed: int
) -> float:
    """The mean wait of one-token replies whose prompts take SERVICE_S on average."""
    kind = {
        "replicas": servers,
        "max_sequences": 1,
        "token_budget": 10**9,
        "profile": {
            "model": "m",
            "gpu": "g",
            "gpus_per_replica": 1,
            "usd_per_gpu_hour": 1,
            "prefill_tokens_per_s": 1e6,
            "decode_tokens_per_s": 1e6,
            "inter_token_ms": 1,
            "kv_bytes_per_token": 1,
            "kv_capacity_bytes": 1e12,
            "load_time_s": 0,
            "memory_bytes": 1e13,
            "itl_base_ms": 0,
        },
    }
    rate_per_s = load * servers / SERVICE_S
    arms = simulate(
        seed=seed,
        duration_s=requests / rate_per_s,
        fleet={"k": kind},
        streams=[
            {
                "tenant": "t",
                "arrivals": {"rate_per_s": rate_per_s},
                "suffix_tokens": {"mean": SERVICE_S * 1e6} | shape,
                "output_tokens": {"mean": 1},
            }
        ],
        arms=[{"name": "a", "route": {"rule": "least-ongoing"}, "gateway": {"max_ongoing": 1}}],
    )
    mean_ms: float = arms["a"]["ttft_ms"]["mean"]
    return mean_ms / 1000 - SERVICE_S


def test_m_m_1(simulate: Simulate) -> None:
    # ρ/(1 − ρ) services: 1.5 · 0.1 s.
    waited = mean_wait_s(simulate, 1, 0.6, {"shape": "exponential"}, 200_000, 1)
    assert waited == pytest.approx(0.15, rel=0.03)


def test_m_m_4(simulate: Simulate) -> None:
    # Erlang C of 2.8 erlangs on 4 servers is 0.42865 (tables); 0.42865 · 0.1 / (4 − 2.8).
    waited = mean_wait_s(simulate, 4, 0.7, {"shape": "exponential"}, 250_000, 1)
    assert waited == pytest.approx(0.42865 * 0.1 / 1.2, rel=0.03)


def test_m_d_1_waits_half_as_long(simulate: Simulate) -> None:
    waited = mean_wait_s(simulate, 1, 0.6, {"shape": "fixed"}, 150_000, 1)
    assert waited == pytest.approx(0.075, rel=0.03)


def test_m_g_1(simulate: Simulate) -> None:
    # Pollaczek and Khinchine: (1 + cv²)/2 times M/M/1's wait.
    waited = mean_wait_s(simulate, 1, 0.5, {"shape": "gamma", "cv": 1.5}, 250_000, 1)
    assert waited == pytest.approx(0.1 * (1 + 1.5**2) / 2, rel=0.03)


def test_m_g_m_is_where_the_plans_approximation_says(simulate: Simulate) -> None:
    waited = mean_wait_s(simulate, 4, 0.7, {"shape": "lognormal", "cv": 1.5}, 150_000, 1)
    planned = waits_s(28, 4, SERVICE_S, 1.5)[0]
    print(f"M/G/4 at 0.7, cv 1.5: simulated {waited:.4f} s, Allen-Cunneen {planned:.4f} s, {planned / waited - 1:+.1%}")
    assert planned == pytest.approx(waited, rel=0.25)


def test_more_servers_at_the_same_load_never_wait_longer(simulate: Simulate) -> None:
    waits = [mean_wait_s(simulate, m, 0.7, {"shape": "exponential"}, 30_000, 2) for m in (1, 2, 4, 8, 16)]
    assert waits == sorted(waits, reverse=True)
