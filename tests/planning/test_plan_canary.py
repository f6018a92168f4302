from math import log, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InputError

CASE = {
    "baseline_error_rate": 0.1,
    "detectable_error_rate": 0.15,
    "alpha": 0.05,
    "power": 0.8,
    "metrics": 1,
    "p50_ms": 200,
    "p95_ms": 800,
    "detectable_p95_increase": 0.5,
    "requests_per_conversation": 1,
    "icc": 0.1,
    "requests_per_s": 10,
    "stages": [0.25],
}
Z = NormalDist().inv_cdf


def test_by_hand(answer):
    # z 1.64485 and 0.84162; pooled 0.125: (1.64485 √0.21875 + 0.84162 √0.2175)² / 0.0025 = 539.9.
    out = answer("canary", **CASE)
    assert out.requests_errors == pytest.approx(539.93, abs=0.02)
    # ln 4 / 1.64485 is 0.84281; density 0.10314 / (800 · 0.84281) = 1.5297e-4; deviation 0.217945 / that, 1,424.8 ms;
    # 6.18256 · 1,424.8² · 3.25 / 400².
    assert out.requests_latency == pytest.approx(254.9, abs=0.3)
    assert out.requests_per_arm == 540
    assert out.stage_s == [pytest.approx(540 / 2.5)]


def test_stages_and_metrics_share_alpha(answer):
    many = answer("canary", **{**CASE, "metrics": 2, "stages": [0.1, 0.5, 0.9]})
    one = answer("canary", **{**CASE, "alpha": 0.05 / 6})
    assert many.requests_errors == pytest.approx(one.requests_errors)
    # The smaller arm sets the pace: a tenth on either side, half in the middle.
    n = many.requests_per_arm
    assert many.stage_s == [pytest.approx(n / 1), pytest.approx(n / 5), pytest.approx(n / 1)]


def test_conversations_make_it_longer(answer):
    out = answer("canary", **{**CASE, "requests_per_conversation": 11})
    assert out.design_effect == pytest.approx(2)
    assert out.requests_per_arm == 1080  # twice 539.93, rounded up once


# The planned canary, simulated: the verdicts' rate is the planned power, within 5 points.
PLANS = [
    {},
    {"baseline_error_rate": 0.01, "detectable_error_rate": 0.015, "metrics": 2, "stages": [0.01, 0.05, 0.25, 0.5]},
    {"detectable_p95_increase": 0.1, "power": 0.9, "p50_ms": 120, "p95_ms": 400},
]


@pytest.mark.parametrize("change", PLANS)
def test_a_simulated_canary_finds_the_errors_as_often_as_planned(answer, change):
    case = {**CASE, **change}
    out = answer("canary", **case)
    n, seed = round(out.requests_errors), np.random.default_rng(5)
    old = seed.binomial(n, case["baseline_error_rate"], 20_000) / n
    alarms = {}
    for arm, rate in (("worse", case["detectable_error_rate"]), ("same", case["baseline_error_rate"])):
        new = seed.binomial(n, rate, 20_000) / n
        pooled = (old + new) / 2
        z = (new - old) / np.sqrt(2 * pooled * (1 - pooled) / n)
        alarms[arm] = np.mean(z > Z(1 - out.alpha_per_test))
    assert alarms["worse"] == pytest.approx(case["power"], abs=0.05)
    assert alarms["same"] == pytest.approx(out.alpha_per_test, abs=0.01)


@pytest.mark.parametrize("change", PLANS)
def test_a_simulated_canary_finds_the_slower_p95_as_often_as_planned(answer, change):
    case = {**CASE, **change}
    out = answer("canary", **case)
    n, seed = round(out.requests_latency), np.random.default_rng(6)
    runs = min(4000, 4_000_000 // n)
    sigma = log(case["p95_ms"] / case["p50_ms"]) / Z(0.95)

    def p95(scale):
        samples = seed.lognormal(log(case["p50_ms"] * scale), sigma, (runs, n))
        return np.quantile(samples, 0.95, axis=1)

    # The spread of a p95 of n requests, measured and not by the formula.
    spread = sqrt(np.var(p95(1)) + np.var(p95(1 + case["detectable_p95_increase"])))
    slower = (p95(1 + case["detectable_p95_increase"]) - p95(1)) / spread > Z(1 - out.alpha_per_test)
    assert np.mean(slower) == pytest.approx(case["power"], abs=0.05)


def test_peeking_raises_false_alarms_fourfold_and_one_look_a_stage_does_not():
    """No difference: a one-sided 5 % test looked at 20 times alarms in about 21 % of canaries, at its end in 5 %."""
    seed = np.random.default_rng(7)
    steps = seed.standard_normal((40_000, 20)).cumsum(axis=1) / np.sqrt(np.arange(1, 21))
    assert np.mean((steps > Z(0.95)).any(axis=1)) == pytest.approx(0.21, abs=0.02)
    assert np.mean(steps[:, -1] > Z(0.95)) == pytest.approx(0.05, abs=0.005)


@settings(max_examples=60, deadline=None)
@given(power=st.floats(0.5, 0.98), more=st.floats(0, 0.015), wider=st.floats(1, 2), traffic=st.floats(1, 10))
def test_more_power_never_fewer_requests_larger_effects_never_more(answer, power, more, wider, traffic):
    case = {**CASE, "power": power}
    base = answer("canary", **case)
    assert answer("canary", **{**CASE, "power": power + more}).requests_per_arm >= base.requests_per_arm
    effect = {"detectable_error_rate": 0.1 + 0.05 * wider, "detectable_p95_increase": 0.5 * wider}
    assert answer("canary", **{**case, **effect}).requests_per_arm <= base.requests_per_arm
    assert answer("canary", **{**case, "requests_per_s": 10 * traffic}).stage_s[0] <= base.stage_s[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages": []}, r"stages = \[\]"),
        ({"stages": [0.5, 1]}, "stages.1 = 1"),
        ({"stages": [0]}, "stages.0 = 0"),
        ({"detectable_error_rate": 0.1}, "detectable_error_rate = 0.1: not over baseline_error_rate"),
        ({"p95_ms": 200}, "p95_ms = 200.*not over p50_ms"),
        ({"power": 1}, "power = 1"),
        ({"icc": 1.5}, "icc = 1.5"),
        ({"requests_per_conversation": 0.5}, "requests_per_conversation = 0.5"),
    ],
)
def test_what_has_no_answer_is_an_error(answer, change, message):
    with pytest.raises(InputError, match=message):
        answer("canary", **{**CASE, **change})


def test_finding_the_requests_of_a_verdict_are_the_length_of_a_stage(of_reference):
    out, sentence = of_reference("canary")
    assert out.stage_s[0] == pytest.approx(out.requests_per_arm / 1.0)  # 1 % of 100 requests/s
    assert out.stage_s == sorted(out.stage_s, reverse=True)
    assert f"{out.requests_per_arm:,} requests an arm" in sentence and "4.8 h in all" in sentence
