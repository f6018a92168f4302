import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InputError
from planning.spill import leaves_home

CASE = {
    "prompt_tokens": 3900,
    "hit_tokens": 2900,
    "prefix_share": 0.25,
    "requests_per_s": 10,
    "output_tokens": 200,
    "utilization_ceiling": 0.5,
}


def test_by_hand(answer, profile):
    # Cold 0.39 + 0.2 s a request, warm 0.1 + 0.2 s (KV memory holds decode to 1,000 tokens/s).
    out = answer("spill", **CASE, profile=profile)
    assert out.saved_ms == pytest.approx(290)
    assert (out.replicas_cold, out.replicas_warm) == (12, 6)  # 5.9 / 0.5 = 11.8; 3 / 0.5
    assert out.popular_requests_per_s == pytest.approx(0.5 / 0.3)
    assert out.home_replicas == 2  # 2.5 requests/s of 1.667


def test_no_hit_saves_nothing(answer, profile):
    out = answer("spill", **{**CASE, "hit_tokens": 0}, profile=profile)
    assert out.saved_ms == 0 and out.replicas_cold == out.replicas_warm


def test_a_request_leaves_its_home_only_past_what_the_prefix_saves():
    assert not leaves_home(390, 100, 2900, 10_000)
    assert leaves_home(390.1, 100, 2900, 10_000)


@settings(max_examples=40, deadline=None)
@given(hit=st.floats(0, 3900), more=st.floats(1, 20), share=st.floats(0, 1))
def test_affinity_never_costs_replicas_and_more_traffic_never_needs_fewer(answer, profile, hit, more, share):
    case = {**CASE, "hit_tokens": hit, "prefix_share": share}
    out = answer("spill", **case, profile=profile)
    busier = answer("spill", **{**case, "requests_per_s": 10 * more}, profile=profile)
    assert out.home_replicas <= out.replicas_warm <= out.replicas_cold
    assert busier.replicas_warm >= out.replicas_warm and busier.home_replicas >= out.home_replicas


def test_a_hit_longer_than_the_prompt_is_an_error(answer, profile):
    with pytest.raises(InputError, match=r"hit_tokens = 3901.*more than prompt_tokens = 3900"):
        answer("spill", **{**CASE, "hit_tokens": 3901}, profile=profile)


def test_finding_affinity_halves_the_fleet_until_one_prefix_gets_popular(of_reference):
    out, sentence = of_reference("spill")
    assert out.replicas_warm / out.replicas_cold == pytest.approx(0.5, abs=0.08)
    assert out.home_replicas > 1
    assert out.saved_ms == pytest.approx(22.96, abs=0.01)
    assert "from 7 to 4 replicas" in sentence and "23.0 ms longer" in sentence
