"""Scenarios for the tests: small ones by hand, and the reference scenarios with changes."""

from collections.abc import Callable
from typing import Any

import pytest

from configs.schema import parse
from planning.topics import TOPICS, read_scenario, reference

# Numbers that are easy to work with: 0.002 USD a replica-second, 200,000 tokens of KV.
PROFILE = {
    "model": "m",
    "gpu": "g",
    "gpus_per_replica": 2,
    "usd_per_gpu_hour": 3.6,
    "prefill_tokens_per_s": 10_000,
    "decode_tokens_per_s": 2_000,
    "inter_token_ms": 50,
    "kv_bytes_per_token": 100_000,
    "kv_capacity_bytes": 20e9,
    "load_time_s": 100,
    "memory_bytes": 40e9,
}


@pytest.fixture(scope="session")
def profile() -> dict[str, Any]:
    return dict(PROFILE)


@pytest.fixture(scope="session")
def answer() -> Callable[..., Any]:
    """answer(topic, **scenario): the outputs."""

    def of(name: str, /, **data: Any) -> Any:
        return TOPICS[name].answer(parse(TOPICS[name].scenario, data, name), name)

    return of


@pytest.fixture(scope="session")
def of_reference() -> Callable[..., Any]:
    """of_reference(topic, {dotted key: value}): the outputs and the sentence of the reference scenario so changed."""

    def of(name: str, changes: dict[str, Any] | None = None) -> Any:
        scenario = read_scenario(name, reference(name), (changes or {}).items())
        outputs = TOPICS[name].answer(scenario, name)
        return outputs, TOPICS[name].finding(scenario, outputs)

    return of
