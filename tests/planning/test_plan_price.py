import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InputError

CASE = {
    "prompt_tokens": 3900,
    "cached_prompt_fraction": 0.5,
    "output_tokens": 200,
    "utilization_ceiling": 0.5,
    "margin": 1,
    "restore_bytes_per_s": 10e9,
    "hold_s": 4,
    "ranges": {"hold_s": [1, 1], "usd_per_gpu_hour": [0.5, 1.5], "cached_prompt_fraction": [0, 4]},
}


def test_by_hand(answer, profile):
    # 0.002 USD a replica-second, doubled by the ceiling and again by the margin: 0.008.
    out = answer("price", **CASE, profile=profile)
    assert out.input_usd_per_million_tokens == pytest.approx(0.8)  # 10,000 tokens/s
    assert out.output_usd_per_million_tokens == pytest.approx(8.0)  # KV memory holds it to 1,000 tokens/s
    # 0.01 ms to restore a token, 4 s of a 200,000th of the memory: 0.03 ms in all.
    assert out.cached_usd_per_million_tokens == pytest.approx(0.24)
    assert out.break_even_hold_s == pytest.approx(18)  # 0.09 ms saved, times 200,000
    assert out.blended_usd_per_request == pytest.approx((1560 + 468 + 1600) / 1e6)
    # Everything scales with the GPU's price; from nothing cached to all (4 · 0.5, held to 1): 4,720 to 2,536.
    assert out.sensitivity == pytest.approx(
        {"usd_per_gpu_hour": 1.0, "cached_prompt_fraction": (4720 - 2536) / 3628, "hold_s": 0}
    )
    assert list(out.sensitivity) == ["usd_per_gpu_hour", "cached_prompt_fraction", "hold_s"]
    assert out.most_sensitive == "usd_per_gpu_hour"


def test_a_faster_decoder_does_not_lower_a_price_that_memory_sets(answer, profile):
    ranges = {"decode_tokens_per_s": [1, 3], "prefill_tokens_per_s": [1, 3]}
    out = answer("price", **{**CASE, "ranges": ranges}, profile=profile)
    assert out.sensitivity["decode_tokens_per_s"] == 0
    assert out.sensitivity["prefill_tokens_per_s"] == pytest.approx(1560 * 2 / 3 / 3628)


def test_a_gpu_for_nothing_makes_everything_free(answer, profile):
    out = answer("price", **CASE, profile={**profile, "usd_per_gpu_hour": 0})
    assert out.blended_usd_per_request == 0
    assert set(out.sensitivity.values()) == {0}


def test_holding_for_the_break_even_costs_as_much_as_prefilling(answer, profile):
    out = answer("price", **{**CASE, "hold_s": 18}, profile=profile)
    assert out.cached_usd_per_million_tokens == pytest.approx(out.input_usd_per_million_tokens)


@settings(max_examples=40, deadline=None)
@given(faster=st.floats(1, 10), key=st.sampled_from(["prefill_tokens_per_s", "decode_tokens_per_s"]))
def test_a_higher_rate_never_costs_more(answer, profile, faster, key):
    base = answer("price", **CASE, profile=profile).blended_usd_per_request
    assert answer("price", **CASE, profile={**profile, key: profile[key] * faster}).blended_usd_per_request <= base


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ({}, r"ranges = \{\}"),
        ({"margin": [1, 2]}, "margin"),
        ({"hold_s": [2, 1]}, "hold_s: the low factor 2 is over the high one 1"),
        ({"prefill_tokens_per_s": [0, 1]}, "prefill_tokens_per_s"),
        ({"hold_s": [-1, 1]}, r"hold_s.0 = -1"),
    ],
)
def test_ranges_that_make_no_sense_are_errors(answer, profile, ranges, message):
    with pytest.raises(InputError, match=message):
        answer("price", **{**CASE, "ranges": ranges}, profile=profile)


def test_finding_a_price_list_and_the_assumption_that_moves_it_most(of_reference):
    out, sentence = of_reference("price")
    listed = (out.cached_usd_per_million_tokens, out.input_usd_per_million_tokens, out.output_usd_per_million_tokens)
    assert listed == tuple(sorted(listed))
    assert out.most_sensitive == max(out.sensitivity, key=out.sensitivity.get)
    assert f"{out.most_sensitive} moves the blended price most" in sentence
