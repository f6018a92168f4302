import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.budgets import load_budget
from configs.errors import InputError

LINES = {"network": 50, "endpoint": 100, "asr": 40, "llm_first_token": 60, "clause": 50, "tts": 20}
CASE = {
    "allocation_ms": LINES,
    "clause_tokens": 11,
    "itl_base_ms": 5,
    "itl_per_sequence_ms": 0.25,
    "ttft_ms": 20,
    "calls": 100,
    "reply_tokens": 51,
    "turn_period_s": 8,
    "llm_calls_per_turn": 2,
    "utilization_ceiling": 0.5,
}


def test_by_hand(answer):
    # 110 ms allowed, 20 for the first token: 9 ms for each of ten more, so 16 sequences.
    out = answer("voice", **CASE)
    assert (out.total_ms, out.over_ms, out.largest_line) == (320, 20, "endpoint")
    assert out.batch_max == 16
    assert out.duty == pytest.approx(2 * 0.47 / 8)  # 20 + 50 · 9 ms
    assert out.calls_per_replica == 68  # 16 · 0.5 / 0.1175 = 68.09
    assert out.replicas == 2


def test_rates_come_from_the_profile_where_the_scenario_gives_none(answer, profile):
    without = {key: value for key, value in CASE.items() if "itl" not in key and key != "ttft_ms"}
    rates = {"itl_base_ms": 1, "itl_per_sequence_ms": 0.25, "ttft_ms": 20}
    assert answer("voice", **without, profile={**profile, **rates}).batch_max == 32
    assert answer("voice", **CASE, profile={**profile, **rates}).batch_max == 16
    for case in ({**without}, {**without, "profile": profile}):
        with pytest.raises(InputError, match="ttft_ms: missing"):
            answer("voice", **case)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"clause_tokens": 1}, "clause_tokens = 1"),
        ({"itl_per_sequence_ms": 0}, "itl_per_sequence_ms = 0"),
        ({"ttft_ms": 60}, "clause_tokens = 11: even alone the first clause takes 112.5 ms; 110 ms are allowed"),
        ({"turn_period_s": 0.05, "reply_tokens": 500}, "turn_period_s = 0.05"),
        ({"allocation_ms": {**LINES, "asr": -1}}, "allocation_ms.asr = -1"),
        ({"allocation_ms": {"asr": 1}}, "allocation_ms.network: missing"),
    ],
)
def test_what_has_no_answer_is_an_error(answer, change, message):
    with pytest.raises(InputError, match=message):
        answer("voice", **{**CASE, **change})


@settings(max_examples=60, deadline=None)
@given(calls=st.integers(1, 10**6), more=st.integers(0, 10**6), allowed=st.floats(60, 500), base=st.floats(0, 3))
def test_more_calls_never_fewer_replicas_and_the_batch_keeps_its_lines(answer, calls, more, allowed, base):
    case = {**CASE, "allocation_ms": {**LINES, "clause": allowed}, "itl_base_ms": base}
    few, many = (answer("voice", **{**case, "calls": n}) for n in (calls, calls + more))
    assert many.replicas >= few.replicas
    first_clause_ms = [20 + 10 * (base + batch * 0.25) for batch in (few.batch_max, few.batch_max + 1)]
    assert first_clause_ms[0] <= 60 + allowed + 1e-6 < first_clause_ms[1] + 2e-6


def test_finding_the_largest_line_is_no_model(of_reference):
    out, sentence = of_reference("voice")
    assert (out.total_ms, out.over_ms) == (300, 0)
    assert out.largest_line == "endpoint"
    assert out.calls_per_replica > 1
    assert "is no model" in sentence and "2000 calls take 5 replicas" in sentence


def test_the_reference_lines_are_the_deployed_budget(of_reference):
    from planning.topics import read_scenario, reference

    scenario = read_scenario("voice", reference("voice"))
    assert scenario.model_dump()["allocation_ms"] == load_budget().allocation_ms()
