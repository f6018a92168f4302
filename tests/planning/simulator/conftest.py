"""Small fleets whose figures can be worked out by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.schema import parse
from planning.simulator.run import run
from planning.simulator.scenario import Scenario


def kind(**changes: Any) -> dict[str, Any]:
    """1,000 prompt tokens/s; a step of b sequences takes 10 + b ms; 100,000 tokens of KV."""
    profile = {
        "model": "m",
        "gpu": "g",
        "gpus_per_replica": 2,
        "usd_per_gpu_hour": 1.0,
        "prefill_tokens_per_s": 1000,
        "decode_tokens_per_s": 500,
        "inter_token_ms": 40,
        "kv_bytes_per_token": 1,
        "kv_capacity_bytes": 100_000,
        "load_time_s": 60,
        "memory_bytes": 200_000,
        "itl_base_ms": 10,
        "itl_per_sequence_ms": 1,
    }
    settings = {"replicas": 1, "max_sequences": 32, "token_budget": 1_000_000, "block_tokens": 1}
    return (
        settings
        | {k: v for k, v in changes.items() if k not in profile}
        | {"profile": profile | {k: v for k, v in changes.items() if k in profile}}
    )


def stream(**changes: Any) -> dict[str, Any]:
    """10 requests a second, Poisson, 100 prompt and 10 output tokens."""
    return {
        "tenant": "t",
        "arrivals": {"rate_per_s": 10},
        "suffix_tokens": {"mean": 100},
        "output_tokens": {"mean": 10},
    } | changes


@pytest.fixture(scope="session")
def simulate() -> Callable[..., dict[str, Any]]:
    """simulate(**scenario): the arms' figures. Without more: 100 s of `stream()` on one `kind()`."""

    def of(folder: Path = Path(), seed: int = 1, **data: Any) -> dict[str, Any]:
        base = {"title": "t", "duration_s": 100, "fleet": {"k": kind()}, "streams": [stream()], "arms": [{"name": "a"}]}
        arms: dict[str, Any] = run(parse(Scenario, base | data, "test"), folder, seed)["arms"]
        return arms

    return of


@pytest.fixture(scope="session")
def make_kind() -> Callable[..., dict[str, Any]]:
    return kind


@pytest.fixture(scope="session")
def make_stream() -> Callable[..., dict[str, Any]]:
    return stream
