import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InputError

PASSES = [
    {"name": "first", "shared_prefix_tokens": 400, "document_tokens": 600, "output_tokens": 1000, "fraction": 1},
    {"name": "second", "shared_prefix_tokens": 0, "document_tokens": 1000, "output_tokens": 1000, "fraction": 0.5},
]
CASE = {
    "documents": 36_000,
    "passes": PASSES,
    "weights_bytes": 27e9,
    "memory_bytes_per_s": 1e12,
    "cuts": {"prefix_caching": True, "deduplicated_fraction": 0.2, "second_pass_fraction": 0.1},
}


def test_by_hand(answer, profile):
    # As in soak by hand: 90 rows, 0.0405 s a step, 0.45 s of decode and 0.1 s of prefill a row; two GPUs a replica.
    out = answer("offline", **CASE, profile=profile)
    hours = {name: (one.prefill_gpu_hours, one.decode_gpu_hours) for name, one in out.passes.items()}
    assert hours["first"] == pytest.approx((2.0, 9.0))
    assert hours["second"] == pytest.approx((1.0, 4.5))
    assert out.gpu_hours == pytest.approx(16.5)
    assert out.usd == pytest.approx(59.4)
    assert out.bill == "first/decode"
    assert out.after == pytest.approx(
        {
            "prefix_caching": 16.5 - 0.8,  # 400 of 1,000 tokens of the first prompt
            "deduplicated_fraction": 13.2,
            "second_pass_fraction": 11 + 1.1,
            "all": 0.8 * (10.2 + 1.1),
        }
    )


def test_only_the_cuts_given_are_weighed(answer, profile):
    assert set(answer("offline", **{**CASE, "cuts": {"deduplicated_fraction": 0}}, profile=profile).after) == {
        "deduplicated_fraction",
        "all",
    }
    out = answer("offline", **{**CASE, "cuts": {"prefix_caching": False}}, profile=profile)
    assert out.after == {"all": out.gpu_hours}


def test_all_duplicates_cost_nothing(answer, profile):
    assert answer("offline", **{**CASE, "cuts": {"deduplicated_fraction": 1}}, profile=profile).after["all"] == 0


@settings(max_examples=40, deadline=None)
@given(more=st.floats(1, 100), duplicates=st.floats(0, 1), again=st.floats(0, 0.5))
def test_more_documents_never_cost_less_and_a_cut_never_more(answer, profile, more, duplicates, again):
    cuts = {"prefix_caching": True, "deduplicated_fraction": duplicates, "second_pass_fraction": again}
    out = answer("offline", **{**CASE, "cuts": cuts}, profile=profile)
    assert all(out.after["all"] <= hours <= out.gpu_hours + 1e-9 for hours in out.after.values())
    assert answer("offline", **{**CASE, "documents": 36_000 * more}, profile=profile).gpu_hours >= out.gpu_hours - 1e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"passes": []}, r"passes = \[\]"),
        ({"passes": [PASSES[0], PASSES[0]]}, "two passes have one name"),
        ({"passes": [PASSES[0]]}, r"cuts.second_pass_fraction = 0.1: there is no second pass"),
        ({"cuts": {"deduplicated_fraction": 1.1}}, "cuts.deduplicated_fraction = 1.1"),
        ({"passes": [{**PASSES[0], "document_tokens": 1e6}], "cuts": {}}, "does not fit"),
    ],
)
def test_what_has_no_answer_is_an_error(answer, profile, change, message):
    with pytest.raises(InputError, match=message):
        answer("offline", **{**CASE, **change}, profile=profile)


def test_finding_one_phase_of_one_pass_is_the_bill(of_reference):
    out, sentence = of_reference("offline")
    assert out.bill == "extract/prefill"
    assert out.after["all"] < min(hours for cut, hours in out.after.items() if cut != "all") < out.gpu_hours
    assert "extract/prefill is 50% of the bill" in sentence and "alone leaves 80%" in sentence
