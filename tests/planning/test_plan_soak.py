import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InputError

DAY = [1] * 12 + [4] * 12
CASE = {
    "demand": DAY,
    "utilization_ceiling": 0.5,
    "batch": {"prompt_tokens": 1000, "output_tokens": 1000},
    "weights_bytes": 27e9,
    "memory_bytes_per_s": 1e12,
    "flops_per_token": 1e10,
    "effective_flops_per_s": 1e14,
    "harvest_efficiency": 0.5,
}


def test_by_hand(answer, profile):
    out = answer("soak", **CASE, profile=profile)
    assert out.fleet == 8
    assert out.idle_fraction == pytest.approx(1 - 60 / 192)
    assert out.idle_replica_hours == pytest.approx(12 * 6)
    assert out.harvestable_fraction == pytest.approx(72 / 192)
    # 0.9 of 200,000 tokens hold 90 rows of 2,000; a step reads 27 GB and 90 · 1,500 tokens, 13.5 GB.
    assert out.batch_concurrency == 90
    assert out.step_s == pytest.approx(0.0405)
    assert out.decode_tokens_per_s == pytest.approx(90 / 0.0405)
    # 0.1 s of prefill, 0.45 s of decode.
    assert out.requests_per_replica_s == pytest.approx(1 / 0.55)
    assert out.requests_per_day == pytest.approx(72 * 3600 / 0.55 / 2)
    assert out.prefill_share == pytest.approx(0.1 / 0.55)
    assert out.limit == "memory"


@pytest.mark.parametrize(
    ("change", "limit"),
    [
        ({"batch": {"prompt_tokens": 1900, "output_tokens": 100}}, "prefill"),
        ({"effective_flops_per_s": 1e13}, "compute"),  # 90 · 1e10 / 1e13 = 0.09 s
        ({"weights_bytes": 13.4e9}, "bandwidth"),
    ],
)
def test_what_limits_the_batch(answer, profile, change, limit):
    assert answer("soak", **{**CASE, **change}, profile=profile).limit == limit


def test_a_flat_day_leaves_only_the_ceiling_idle(answer, profile):
    out = answer("soak", **{**CASE, "demand": [4] * 24}, profile=profile)
    assert out.idle_fraction == pytest.approx(0.5)
    assert out.idle_replica_hours == pytest.approx(0)
    assert out.requests_per_day == pytest.approx(0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.1, 50), min_size=24, max_size=24), st.integers(0, 23), st.floats(0, 20))
def test_more_callers_never_fewer_replicas_and_idle_time_is_never_negative(answer, profile, demand, hour, more):
    out = answer("soak", **{**CASE, "demand": demand}, profile=profile)
    busier = [d + more * (i == hour) for i, d in enumerate(demand)]
    assert answer("soak", **{**CASE, "demand": busier}, profile=profile).fleet >= out.fleet
    assert out.idle_replica_hours >= -1e-6 and 0 <= out.idle_fraction <= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"demand": [0] * 24}, "no hour has any demand"),
        ({"demand": [1] * 23}, "demand"),
        ({"batch": {"prompt_tokens": 179_900, "output_tokens": 200}}, "prompt_tokens = 179900.*does not fit"),
    ],
)
def test_what_has_no_answer_is_an_error(answer, profile, change, message):
    with pytest.raises(InputError, match=message):
        answer("soak", **{**CASE, **change}, profile=profile)


def test_finding_more_than_half_idle_and_kv_memory_limits_a_reply_heavy_batch(of_reference):
    out, sentence = of_reference("soak")
    assert out.idle_fraction > 0.5
    assert out.limit == "memory"
    assert "66% idle" in sentence and "KV memory, not compute, limits the batch" in sentence


def test_the_reference_bandwidth_carries_the_published_decode_rate():
    # The published row: 271 sequences, 1,500 tokens each, 6,018 tokens/s.
    step_s = (72.7e9 + 271 * 1500 * 163_840) / 4.4e12
    assert 271 / step_s > 6018
