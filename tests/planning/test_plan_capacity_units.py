import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InputError


def kind(name, goodput, usd, available):
    return {"name": name, "goodput_requests_per_s": goodput, "usd_per_hour": usd, "available": available}


CASE = {
    "types": [kind("big", 10, 4, 3), kind("small", 4, 1.5, 5), kind("spare", 2, 1, 0)],
    "reference": "big",
    "fleet": {"big": 2, "small": 5, "spare": 0},
    "requests_per_s": 14,
    "utilization_ceiling": 0.5,
}


def test_by_hand(answer):
    out = answer("capacity-units", **CASE)
    assert out.units == {"big": 1, "small": 0.4, "spare": 0.2}
    assert out.fleet_units == pytest.approx(4)
    assert out.routing_weights == pytest.approx({"big": 0.25, "small": 0.1})
    # Two requests/s a GPU: a fifth of the big one's, half of the small one's.
    assert out.utilization_by_count == pytest.approx({"big": 0.2, "small": 0.5})
    assert out.utilization_by_units == pytest.approx(0.35)
    assert out.max_requests_per_s_by_count == pytest.approx(14)
    assert out.max_requests_per_s_by_units == pytest.approx(20)
    # 28 requests/s: 2 big and 2 small, exactly, for 11; one big and 5 small, 30, would be 11.5, three big 12.
    assert out.buy == {"big": 2, "small": 2, "spare": 0}
    assert out.buy_usd_per_hour == pytest.approx(11)


def test_ties_go_to_fewer_replicas(answer):
    types = [kind("one", 1, 1, 10), kind("five", 5, 5, 10)]
    out = answer(
        "capacity-units", **{**CASE, "types": types, "reference": "one", "fleet": {"one": 1}, "requests_per_s": 5}
    )
    assert out.buy == {"one": 0, "five": 2}


def test_exactly_what_is_there_is_enough(answer):
    # 3 · 10 + 5 · 4 at a ceiling of 0.3 are 15, but for the last binary digit.
    out = answer("capacity-units", **{**CASE, "requests_per_s": 15, "utilization_ceiling": 0.3})
    assert out.buy == {"big": 3, "small": 5, "spare": 0}


def test_a_hair_more_than_there_is_is_an_error(answer):
    with pytest.raises(InputError, match=r"requests_per_s = 15.0001: more than all available"):
        answer("capacity-units", **{**CASE, "requests_per_s": 15.0001, "utilization_ceiling": 0.3})


def brute_force(types, needed):
    best = None
    for counts in itertools.product(*(range(t["available"] + 1) for t in types)):
        if sum(n * t["goodput_requests_per_s"] for n, t in zip(counts, types, strict=True)) >= needed * (1 - 1e-9):
            key = (round(sum(n * t["usd_per_hour"] for n, t in zip(counts, types, strict=True)), 6), sum(counts))
            best = key if best is None else min(best, key)
    return best


TYPES = st.lists(st.tuples(st.integers(1, 300), st.integers(1, 500), st.integers(0, 6)), min_size=1, max_size=4).map(
    lambda drawn: [kind(f"t{i}", g / 10, usd / 100, n) for i, (g, usd, n) in enumerate(drawn)]
)


@settings(max_examples=60, deadline=None)
@given(types=TYPES, share=st.floats(0.01, 1))
def test_brute_force_buys_the_same(answer, types, share):
    total = sum(t["goodput_requests_per_s"] * t["available"] for t in types)
    if not total:
        return
    needed = round(total * share, 3) or 0.001
    expected = brute_force(types, needed)
    case = {"types": types, "reference": "t0", "fleet": {"t0": 1}, "requests_per_s": needed, "utilization_ceiling": 1}
    if expected is None:  # rounded over all there is
        return
    out = answer("capacity-units", **case)
    assert (round(out.buy_usd_per_hour, 6), sum(out.buy.values())) == expected


@settings(max_examples=30, deadline=None)
@given(types=TYPES, share=st.floats(0.01, 0.5), more=st.floats(1, 2))
def test_more_traffic_never_buys_cheaper_and_a_better_gpu_never_dearer(answer, types, share, more):
    total = sum(t["goodput_requests_per_s"] * t["available"] for t in types)
    if not total:
        return
    case = {
        "types": types,
        "reference": "t0",
        "fleet": {"t0": 1},
        "requests_per_s": total * share,
        "utilization_ceiling": 1,
    }
    base = answer("capacity-units", **case).buy_usd_per_hour
    assert answer("capacity-units", **{**case, "requests_per_s": total * share * more}).buy_usd_per_hour >= base - 1e-6
    faster = [{**t, "goodput_requests_per_s": t["goodput_requests_per_s"] * more} for t in types]
    assert answer("capacity-units", **{**case, "types": faster}).buy_usd_per_hour <= base + 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"types": []}, r"types = \[\]"),
        ({"types": [kind("a", 1, 1, 1), kind("a", 2, 1, 1)]}, "two types have one name"),
        ({"reference": "huge"}, "reference = 'huge': no type of this name"),
        ({"fleet": {"huge": 1}}, "no type named huge"),
        ({"fleet": {"big": 0}}, "no replica in it"),
        ({"fleet": {"big": -1}}, "fleet.big = -1"),
        ({"fleet": {"big": 1.5}}, "fleet.big = 1.5"),
    ],
)
def test_fleets_that_make_no_sense_are_errors(answer, change, message):
    with pytest.raises(InputError, match=message):
        answer("capacity-units", **{**CASE, **change})


def test_finding_counting_gpus_breaks_the_slow_pool(of_reference):
    out, sentence = of_reference("capacity-units")
    assert out.utilization_by_count["A100-80"] > 1 > 0.7 > out.utilization_by_units
    assert out.max_requests_per_s_by_count < 50 < out.max_requests_per_s_by_units
    assert "A100-80 128% busy, over the ceiling" in sentence
