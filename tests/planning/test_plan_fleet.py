import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

CASE = {
    "requests_per_s": 10,
    "prompt_tokens": 3900,
    "cached_prompt_fraction": 0.5,
    "output_tokens": 200,
    "utilization_ceiling": 0.5,
}


def test_by_hand_where_memory_binds(answer, profile):
    # KV holds 200,000 tokens: 50 sequences of 3,900 + 100, a token each every 50 ms, are 1,000 tokens/s of 2,000.
    out = answer("fleet", **CASE, profile=profile)
    assert out.prefill_replica_s_per_s == pytest.approx(1.95)
    assert out.decode_tokens_per_s_at_length == pytest.approx(1000)
    assert out.decode_replica_s_per_s == pytest.approx(2.0)
    assert out.binding == "memory"
    assert out.replicas == 8  # 3.95 / 0.5 = 7.9
    assert out.concurrency == pytest.approx(101.95)  # 10 requests/s · (0.195 + 10 s)
    assert out.usd_per_hour == pytest.approx(57.6)
    assert out.usd_per_million_tokens == pytest.approx(57.6 / 147.6)  # 147.6 million tokens an hour
    assert out.prompt_share_of_bill == pytest.approx(1.95 / 3.95)


def test_by_hand_where_compute_binds(answer, profile):
    out = answer("fleet", **{**CASE, "prompt_tokens": 900}, profile=profile)
    assert (out.binding, out.decode_tokens_per_s_at_length) == ("compute", 2000)
    assert out.decode_replica_s_per_s == pytest.approx(1.0)


def test_a_whole_fleet_is_not_rounded_up_past_itself(answer, profile):
    # 0.1 · 3 replicas' worth: binary fractions make it a hair over 3 at a ceiling of 0.1.
    case = {**CASE, "prompt_tokens": 900, "cached_prompt_fraction": 1, "requests_per_s": 3, "utilization_ceiling": 0.1}
    assert answer("fleet", **case, profile=profile).replicas == 3


@settings(max_examples=60, deadline=None)
@given(
    rate=st.floats(0.1, 1e4),
    more=st.floats(1, 10),
    cached=st.floats(0, 1),
    output=st.floats(1, 4000),
    faster=st.sampled_from(["prefill_tokens_per_s", "decode_tokens_per_s", "kv_capacity_bytes"]),
)
def test_more_traffic_never_fewer_and_a_higher_rate_never_more(answer, profile, rate, more, cached, output, faster):
    case = {**CASE, "requests_per_s": rate, "cached_prompt_fraction": cached, "output_tokens": output}
    base = answer("fleet", **case, profile=profile).replicas
    assert answer("fleet", **{**case, "requests_per_s": rate * more}, profile=profile).replicas >= base
    assert answer("fleet", **case, profile={**profile, faster: profile[faster] * more}).replicas <= base


def test_finding_the_prompt_is_two_thirds_of_the_bill_and_memory_binds(of_reference):
    out, sentence = of_reference("fleet")
    assert out.prompt_share_of_bill == pytest.approx(2 / 3, abs=0.03)
    assert out.binding == "memory"
    assert "67% of the bill" in sentence and "KV memory binds decode" in sentence


def test_the_published_rows_follow_from_the_solved_rates():
    # 1000/1000 at 15,220 output tokens/s and 2048/128 at 3,450: both phases take their share of the time.
    assert pytest.approx(15_220, rel=0.01) == 1000 / (1000 / 66_900 + 1000 / 19_700)
    assert pytest.approx(3_450, rel=0.01) == 128 / (2048 / 66_900 + 128 / 19_700)
    assert pytest.approx(4_205, rel=0.01) == 1000 / (1000 / 13_960 + 1000 / 6_018)
    assert pytest.approx(762, rel=0.01) == 128 / (2048 / 13_960 + 128 / 6_018)
