"""The comparison that `make verify PART=planning` rests on, with requests whose times are worked by hand."""

import pytest

from tests.support.simulated_tier import Ttft, measured_ttft, simulated_ttft

PROFILE = {
    "model": "m",
    "gpu": "g",
    "gpus_per_replica": 1,
    "usd_per_gpu_hour": 1.0,
    "prefill_tokens_per_s": 1000.0,
    "decode_tokens_per_s": 100.0,
    "inter_token_ms": 30.0,
    "kv_bytes_per_token": 1,
    "kv_capacity_bytes": 10_000,
    "load_time_s": 1.0,
    "memory_bytes": 20_000,
    "itl_base_ms": 20.0,
    "itl_per_sequence_ms": 5.0,
    "prefill_points": [[32, 0.05], [64, 0.09]],
    "overhead_ms": 10.0,
    "engine": {"max_sequences": 16, "token_budget": 256, "block_tokens": 32, "context_tokens": 2048},
}


def sample(due_s, prompt_tokens, ttft_s, cached_tokens=0, outcome="ok"):
    return {
        "due_s": due_s,
        "first_token_s": due_s + ttft_s,
        "prompt_tokens": prompt_tokens,
        "cached_tokens": cached_tokens,
        "output_tokens": 1,
        "outcome": outcome,
        "detail": "",
    }


def test_the_same_requests_are_simulated(tmp_path):
    # 32 tokens alone: 50 ms; 64, the beginning not seen before: 90; then 32 of 64 from the cache: 40; 10 on top each.
    samples = [sample(0, 32, 0.055), sample(10, 64, 0.1), sample(20, 64, 0.055, cached_tokens=32)]
    simulated = simulated_ttft(samples, PROFILE, tmp_path)
    assert simulated.mean_ms == pytest.approx((60 + 100 + 50) / 3)
    assert simulated.p95_ms == pytest.approx(60 + 0.9 * 40)
    assert measured_ttft(samples) == Ttft(pytest.approx(70), pytest.approx(55 + 0.9 * 45))


def test_a_request_waits_for_the_step_before(tmp_path):
    # The second comes 10 ms into a step of 90 ms, then takes 50 ms itself.
    simulated = simulated_ttft([sample(0, 64, 1), sample(0.01, 32, 1)], PROFILE, tmp_path)
    assert simulated.mean_ms == pytest.approx(((90 + 10) + (80 + 50 + 10)) / 2)


def test_errors_are_relative_to_the_truth():
    assert Ttft(90, 120).error(Ttft(100, 100)) == (pytest.approx(-0.1), pytest.approx(0.2))


def test_a_run_with_a_failure_is_no_truth():
    with pytest.raises(ValueError, match="timeout"):
        measured_ttft([sample(0, 32, 0.1), sample(1, 32, 0.1, outcome="timeout")])
