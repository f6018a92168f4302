import pytest
from statsmodels.stats.proportion import confint_proportions_2indep

from configs.errors import InputError
from planning.ledger import Run, quality_lower_bound, wilson


def run(name, **changes):
    return {
        "name": name,
        "usd_per_gpu_hour": 2,
        "gpus": 4,
        "duration_s": 1800,
        "requests": 1000,
        "good_requests": 800,
        "p95_ttft_ms": 200,
        "p95_inter_token_ms": 20,
        "quality_passed": 90,
        "quality_trials": 100,
        "load": "knee",
        **changes,
    }


CASE = {
    "slo": {"p95_ttft_ms": 300, "p95_inter_token_ms": 30},
    "quality_margin": 0.05,
    "alpha": 0.05,
    "minimum_trials": 100,
    "baseline": "base",
}


def test_by_hand(answer):
    better = {"quality_passed": 99, "gpus": 2}
    runs = [
        run("base"),  # 4 USD for 800 good requests
        run("cheap", **better),
        run("cheaper", **{**better, "gpus": 1}, headline={"metric": "USD", "factor": 4}),
        run("slow", **better, p95_ttft_ms=301, headline={"metric": "USD", "factor": 2}),
        run("stutters", **better, p95_inter_token_ms=31),
        run("worse", **{**better, "quality_passed": 85}, headline={"metric": "USD", "factor": 2}),
        run("hasty", **{**better, "quality_passed": 50, "quality_trials": 50}),
        run("same", quality_passed=99, headline={"metric": "USD", "factor": 1}),
        run("broken", **better, good_requests=0),
    ]
    out = answer("ledger", **CASE, runs=runs)
    assert out.usd_per_good_request["base"] == pytest.approx(0.005)
    assert out.usd_per_good_request["cheaper"] == pytest.approx(0.00125)
    assert out.usd_per_good_request["broken"] is None
    assert out.reasons == {
        "base": [],
        "cheap": [],
        "cheaper": [],
        "slow": ["latency"],
        "stutters": ["latency"],
        "worse": ["quality"],
        "hasty": ["too_few"],
        "same": ["no_saving"],
        "broken": ["no_saving"],
    }
    assert out.verdicts["base"] == "baseline"
    assert {name for name, verdict in out.verdicts.items() if verdict == "accepted"} == {"cheap", "cheaper"}
    assert out.misleading == ["slow", "worse"]
    assert out.chosen == "cheaper"


def test_all_that_holds_against_a_run_is_said_and_the_baseline_stays(answer):
    bad = run("bad", p95_ttft_ms=999, quality_passed=10, quality_trials=50, gpus=9)
    out = answer("ledger", **CASE, runs=[run("base"), bad])
    assert out.reasons["bad"] == ["latency", "quality", "too_few", "no_saving"]
    assert out.chosen == "base"


@pytest.mark.parametrize(
    ("ours", "theirs"), [((56, 70), (48, 80)), ((9, 10), (3, 10)), ((10, 10), (0, 20)), ((878, 1000), (912, 1000))]
)
def test_the_quality_bound_is_newcombes(ours, theirs):
    """Beside statsmodels' two-sided interval at twice the alpha."""
    mine, base = (Run(**run("r", quality_passed=k, quality_trials=n)) for k, n in (ours, theirs))
    low, _ = confint_proportions_2indep(*ours, *theirs, method="newcomb", alpha=0.1)
    assert quality_lower_bound(mine, base, 0.05) == pytest.approx(low, abs=1e-9)


def test_newcombes_own_example():
    # 56 of 70 against 48 of 80, 95 % two-sided: 0.0524 to 0.3339 (Newcombe 1998, table II, method 10).
    mine, base = (Run(**run("r", quality_passed=k, quality_trials=n)) for k, n in ((56, 70), (48, 80)))
    assert quality_lower_bound(mine, base, 0.025) == pytest.approx(0.0524, abs=5e-5)


def test_one_sided_bounds_use_the_one_sided_z():
    # No failure in n: the lower bound is n / (n + z²), z = 1.6449 at 5 %.
    assert wilson(100, 100, 0.05)[0] == pytest.approx(100 / (100 + 1.6449**2), abs=1e-5)


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([], r"runs = \[\]"),
        ([run("other")], "none of them is the baseline, base"),
        ([run("base"), run("base")], "two runs have one name"),
        ([run("base"), run("a", load=20)], "a.load = 20.*the baseline's is knee"),
        ([run("base", load=10), run("a", load=20)], "a.load = 20"),
        ([run("base", load="peak")], "runs.0.load = 'peak': expected \"knee\" or a positive number"),
        ([run("base", load=0)], "runs.0.load = 0"),
        ([run("base", good_requests=1001)], "good_requests = 1001: more than requests = 1000"),
        ([run("base", quality_trials=89)], "quality_trials = 89: fewer than quality_passed = 90"),
        ([run("base", quality_trials=0, quality_passed=0)], "quality_trials = 0"),
    ],
)
def test_runs_that_cannot_be_compared_are_errors(answer, runs, message):
    with pytest.raises(InputError, match=message):
        answer("ledger", **CASE, runs=runs)


def test_finding_a_cheaper_gpu_and_a_faster_decoder_make_no_cheaper_service(of_reference):
    out, sentence = of_reference("ledger")
    assert "no_saving" in out.reasons["l40s"] and "no_saving" in out.reasons["speculative"]
    assert {"l40s", "speculative"} <= set(out.misleading)
    assert out.chosen == "affinity"
    assert "These do not make a cheaper service: l40s" in sentence
