import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InputError

CASE = {
    "parameters": 1e9,
    "layers": 1,
    "attention_width": 1000,
    "prompt_tokens": 10_000,
    "warm_fraction": 0.5,
    "suffix_tokens": 1000,
    "gemm_flops_per_gpu": 1e12,
    "attention_flops_per_gpu": 1e12,
    "gpus": 2,
    "mfu": 0.5,
    "requests_per_s": 0.1,
    "output_tokens": 200,
    "utilization_ceiling": 0.5,
    "network_bytes_per_s": 1e9,
}


def test_by_hand(answer, profile):
    # 20 s of matrix products and 0.2 s of attention; 9,000 tokens: 18 s and 0.162 s.
    out = answer("long-context", **CASE, profile=profile)
    assert out.cold_prefill_s == pytest.approx(20.2)
    assert out.warm_prefill_s == pytest.approx(2.038)
    assert out.prefill_replicas == 3  # 0.1 · 11.119 / 0.5 = 2.22
    # Rate: 20 / 2,000 / 0.5 = 0.02. Memory: one sequence at a time (20 tokens/s · 0.05 s) of 10,100 tokens: 0.1.
    assert out.decode_replicas == 1
    assert out.kv_transfer_s == pytest.approx(1.0)


def test_decode_takes_the_larger_of_rate_and_memory(answer, profile):
    # 100 requests/s: 20,000 tokens/s over 2,000 and 0.5 are 20; 1,000 sequences of 10,100 tokens in 200,000: 101.
    busy = {**CASE, "requests_per_s": 100}
    assert answer("long-context", **busy, profile=profile).decode_replicas == 101
    roomy = {**profile, "kv_capacity_bytes": 20e12}
    assert answer("long-context", **busy, profile=roomy).decode_replicas == 20


def test_nothing_warm_is_all_cold(answer, profile):
    cold = answer("long-context", **{**CASE, "warm_fraction": 0, "requests_per_s": 1}, profile=profile)
    assert cold.prefill_replicas == 41  # 20.2 / 0.5
    whole = answer("long-context", **{**CASE, "suffix_tokens": 10_000}, profile=profile)
    assert whole.warm_prefill_s == pytest.approx(whole.cold_prefill_s)


@settings(max_examples=40, deadline=None)
@given(more=st.floats(1, 10), warm=st.floats(0, 1))
def test_more_traffic_and_less_warmth_never_need_fewer(answer, profile, more, warm):
    case = {**CASE, "warm_fraction": warm}
    base = answer("long-context", **case, profile=profile)
    busier = answer("long-context", **{**case, "requests_per_s": 0.1 * more}, profile=profile)
    assert busier.prefill_replicas >= base.prefill_replicas and busier.decode_replicas >= base.decode_replicas
    assert (
        answer("long-context", **{**case, "warm_fraction": 0}, profile=profile).prefill_replicas
        >= base.prefill_replicas
    )


def test_a_suffix_longer_than_the_prompt_is_an_error(answer, profile):
    with pytest.raises(InputError, match=r"suffix_tokens = 10001.*more than prompt_tokens = 10000"):
        answer("long-context", **{**CASE, "suffix_tokens": 10_001}, profile=profile)


def test_finding_a_cold_32k_prefill_barely_fits_a_second(of_reference):
    out, sentence = of_reference("long-context")
    # 2.34 s of fp8 products and 1.42 s of bf16 attention on one GPU's peak, over 8 · 0.5.
    assert out.cold_prefill_s == pytest.approx((2.338 + 1.423) / 4, abs=0.001)
    assert 0.9 < out.cold_prefill_s < 1
    assert out.warm_prefill_s < out.cold_prefill_s / 10
    assert "inside a second" in sentence and "prefill replicas" in sentence and "decode replicas" in sentence
