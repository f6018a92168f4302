import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InputError

CASE = {"prompt_tokens": 9900, "cached_prompt_fraction": 0, "output_tokens": 100}


def test_by_hand_cold(answer, profile):
    out = answer("quotas", **CASE, profile=profile)
    assert out.compute_rt == pytest.approx(10_400)  # 9,900 + 100 · 5
    assert out.residency_s == pytest.approx(5.99)  # 0.99 + 100 · 0.05
    assert out.kv_fraction == pytest.approx(0.05)  # 10,000 of 200,000
    assert out.memory_fraction == pytest.approx(0.025)
    assert out.memory_rt == pytest.approx(2995)
    assert (out.resource_tokens, out.dominant) == (pytest.approx(10_400), "compute")


def test_by_hand_cached(answer, profile):
    out = answer("quotas", **{**CASE, "cached_prompt_fraction": 1}, profile=profile)
    assert out.compute_rt == pytest.approx(500)
    assert (out.resource_tokens, out.dominant) == (pytest.approx(2500), "memory")  # 0.05 · 5 s · 10,000


def test_a_tie_is_computes(answer, profile):
    # Nothing is produced, KV is full: memory takes 200,000 / 10,000 s of all of it, compute the same 200,000 tokens.
    case = {"prompt_tokens": 200_000, "cached_prompt_fraction": 0, "output_tokens": 0}
    out = answer("quotas", **case, profile=profile)
    assert out.compute_rt == out.memory_rt
    assert out.dominant == "compute"


def test_more_kv_than_there_is_is_an_error(answer, profile):
    assert answer("quotas", **{**CASE, "prompt_tokens": 199_900}, profile=profile).kv_fraction == pytest.approx(1)
    with pytest.raises(InputError, match="prompt_tokens = 199901"):
        answer("quotas", **{**CASE, "prompt_tokens": 199_901}, profile=profile)


@settings(max_examples=60, deadline=None)
@given(
    prompt=st.floats(1, 1e5),
    cached=st.floats(0, 1),
    output=st.floats(0, 5e4),
    more=st.floats(1, 2),
    less=st.floats(0, 1),
)
def test_a_longer_request_never_costs_less_and_a_cached_one_never_more(
    answer, profile, prompt, cached, output, more, less
):
    case = {"prompt_tokens": prompt, "cached_prompt_fraction": cached, "output_tokens": output}
    cost = answer("quotas", **case, profile=profile).resource_tokens
    longer = {**case, "prompt_tokens": min(1e5, prompt * more), "output_tokens": output * more}
    assert answer("quotas", **longer, profile=profile).resource_tokens >= cost - 1e-9
    colder = {**case, "cached_prompt_fraction": cached * less}
    assert answer("quotas", **colder, profile=profile).resource_tokens >= cost - 1e-9


def test_finding_a_128k_prompt_takes_a_fifth_of_the_memory(of_reference):
    out, sentence = of_reference("quotas")
    assert out.memory_fraction == pytest.approx(17.18 / 80, abs=1e-3)  # 131,072 tokens of 131,072 bytes
    assert out.dominant == "memory"
    assert "21% of a replica's memory" in sentence and "compute's" in sentence


def test_cold_the_same_prompt_is_computes(of_reference):
    assert of_reference("quotas", {"cached_prompt_fraction": 0})[0].dominant == "compute"
