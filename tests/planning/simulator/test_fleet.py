"""Whole runs: nothing is lost, nothing changes with the same seed, and each thing that can go wrong does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configs.errors import InputError
from planning.quotas import charge

Simulate = Callable[..., dict[str, Any]]
Make = Callable[..., dict[str, Any]]

RULES = [
    "spill",
    "round-robin",
    "least-ongoing",
    "power-of-two",
    "ray-prefix-affinity",
    "llm-d-affinity",
    "count-weighted",
]


def busy_stream(make_stream: Make, **changes: Any) -> dict[str, Any]:
    return (
        make_stream(
            arrivals={"process": "bursty", "rate_per_s": 20},
            shared={"count": 5, "tokens": 300, "hot_share": 0.5},
            suffix_tokens={"mean": 50, "shape": "lognormal", "cv": 1},
            output_tokens={"mean": 20, "shape": "exponential"},
        )
        | changes
    )


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_serves_every_request_with_failures_and_adapters(
    simulate: Simulate, make_kind: Make, make_stream: Make, rule: str
) -> None:
    arms = simulate(
        fleet={"a": make_kind(replicas=4, adapter_load_s=0.05), "b": make_kind(replicas=2, prefill_tokens_per_s=500)},
        streams=[
            busy_stream(make_stream, adapters=20),
            make_stream(tenant="talk", arrivals={"rate_per_s": 5}, conversations={"active": 20, "turns": 5}),
        ],
        failures=[{"at_s": 30, "replicas": 2}, {"at_s": 60, "replicas": 1, "replace": False}],
        arms=[{"name": "a", "route": {"rule": rule}}],
    )
    arm = arms["a"]
    assert (arm["unfinished"], arm["refused"]) == (0, 0)
    assert arm["requests"] == sum(t["requests"] for t in arm["tenants"].values())
    assert arm["retried"] > 0
    assert arm["littles_law_error"] < 1e-9
    assert 0 < arm["cached_share"] < 1
    # Six for 100 s or until the last request is done; what dies at 30 s is loading again at once, one at 60 s is not.
    assert 560 <= arm["replica_hours"] * 3600 < 1000


def test_the_same_seed_gives_the_same_figures_and_another_does_not(simulate: Simulate, make_stream: Make) -> None:
    data = {"streams": [busy_stream(make_stream, arrivals={"rate_per_s": 3})]}
    assert simulate(**data) == simulate(**data)
    assert simulate(**data)["a"]["ttft_ms"] != simulate(seed=2, **data)["a"]["ttft_ms"]


def test_arms_see_the_same_requests(simulate: Simulate) -> None:
    arms = simulate(arms=[{"name": "a"}, {"name": "b"}])
    assert arms["a"]["ttft_ms"] == arms["b"]["ttft_ms"]


def test_cost_and_goodput_of_one_idle_replica(simulate: Simulate, make_stream: Make) -> None:
    arm = simulate(
        duration_s=3600,
        streams=[make_stream(arrivals={"rate_per_s": 0.1})],
        objective={"ttft_ms": 111, "inter_token_ms": 12},
    )["a"]
    assert arm["usd"] == pytest.approx(2.0, rel=0.01)
    # 100 tokens take 100 ms; a request that meets another one misses the objective, one in a hundred or so.
    assert 0.95 < arm["good_share"] < 1
    assert arm["goodput_requests_per_s"] == pytest.approx(arm["requests"] * arm["good_share"] / 3600)
    assert arm["ttft_ms"]["p50"] == pytest.approx(100)
    assert arm["inter_token_ms"]["p50"] == pytest.approx(11)


def test_warmup_is_simulated_and_not_counted(simulate: Simulate) -> None:
    whole, part = simulate()["a"], simulate(warmup_s=50)["a"]
    assert part["requests"] == pytest.approx(whole["requests"] / 2, rel=0.15)


def test_what_can_never_fit_is_refused(simulate: Simulate, make_stream: Make) -> None:
    arm = simulate(streams=[make_stream(suffix_tokens={"mean": 99_991}), make_stream(tenant="u")])["a"]
    assert arm["tenants"]["t"]["refused"] > 900 and arm["tenants"]["t"]["requests"] == 0
    assert arm["tenants"]["u"]["requests"] > 900


def test_a_hopeless_load_ends_and_says_what_is_left(simulate: Simulate, make_stream: Make) -> None:
    arm = simulate(streams=[make_stream(arrivals={"rate_per_s": 30})], drain_s=10)["a"]
    assert arm["unfinished"] > 1000
    assert arm["littles_law_error"] is None


def test_a_trace_is_replayed(simulate: Simulate, tmp_path: Path) -> None:
    rows = [
        {"at_s": 1.0, "prompt_tokens": 500, "output_tokens": 3, "prefix": "p", "prefix_tokens": 400},
        {"at_s": 9.0, "prompt_tokens": 500, "output_tokens": 1, "prefix": "p", "prefix_tokens": 400},
        {"at_s": 5.0, "prompt_tokens": 100, "output_tokens": 1},
        {"at_s": 500.0, "prompt_tokens": 100, "output_tokens": 1},
    ]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arm = simulate(folder=tmp_path, streams=[{"tenant": "t", "trace": "t.jsonl"}])["a"]
    assert arm["requests"] == 3
    assert arm["ttft_ms"]["max"] == pytest.approx(500)
    assert arm["ttft_ms"]["mean"] == pytest.approx((500 + 100 + 100) / 3)
    assert arm["cached_share"] == pytest.approx(400 / 1100)


def test_a_measured_profile_brings_its_own_prefill_times(
    simulate: Simulate, make_kind: Make, make_stream: Make
) -> None:
    measured = make_kind()
    measured["profile"]["prefill_points"] = [[50, 0.2], [150, 0.3]]
    sparse = make_stream(arrivals={"rate_per_s": 0.1})
    arm = simulate(fleet={"k": measured}, streams=[sparse], duration_s=1000)["a"]
    assert arm["ttft_ms"]["p50"] == pytest.approx(250)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "expected an object"),
        ('{"at_s": -1, "prompt_tokens": 1, "output_tokens": 1}', "at_s = -1"),
        ('{"at_s": 1, "prompt_tokens": "9", "output_tokens": 1}', "prompt_tokens = '9'"),
        ('{"at_s": 1, "prompt_tokens": 5, "output_tokens": 1, "prefix": "p", "prefix_tokens": 5}', "prefix_tokens = 5"),
    ],
)
def test_a_bad_line_of_a_trace_is_named(simulate: Simulate, tmp_path: Path, line: str, said: str) -> None:
    good = '{"at_s": 0, "prompt_tokens": 9, "output_tokens": 1}'
    (tmp_path / "t.jsonl").write_text(f"{good}\n{line}\n")
    with pytest.raises(InputError, match=r"t\.jsonl, line 2") as raised:
        simulate(folder=tmp_path, streams=[{"tenant": "t", "trace": "t.jsonl"}])
    assert said in str(raised.value)


def test_a_quota_holds_a_tenant_to_its_rate(simulate: Simulate, make_stream: Make) -> None:
    # 100 prompt and 10 output tokens cost 100 + 10 · 1,000/500 = 120 resource tokens; 240 a second are 2 requests.
    limit = {"rate_rt_per_s": 240, "burst_rt": 1200}
    arm = simulate(arms=[{"name": "a", "gateway": {"quotas": {"t": limit}}}])["a"]
    assert arm["requests"] == pytest.approx(2 * 100 + 10, abs=6)
    assert arm["requests"] + arm["refused"] == pytest.approx(1000, rel=0.1)


def test_a_quota_charges_what_the_plan_says(
    simulate: Simulate, make_stream: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    arm = {"name": "a", "gateway": {"quotas": {"t": {"rate_rt_per_s": 240, "burst_rt": 1200}}}}
    before = simulate(arms=[arm])["a"]["requests"]

    def double(*request: Any) -> Any:
        planned = charge(*request)
        return planned.model_copy(update={"resource_tokens": 2 * planned.resource_tokens})

    monkeypatch.setattr("planning.simulator.fleet.charge", double)
    assert simulate(arms=[arm])["a"]["requests"] == pytest.approx(before / 2, rel=0.05)


def test_over_capacity_a_deadline_refuses_in_time_and_serves_the_rest_well(
    simulate: Simulate, make_stream: Make
) -> None:
    # 15 requests a second of 0.12 replica-seconds on one replica: 8 can be served.
    arms = simulate(
        streams=[make_stream(arrivals={"rate_per_s": 15})],
        arms=[{"name": "deadline", "route": {"max_wait_ms": 500}}, {"name": "queue"}],
    )
    shed, queued = arms["deadline"], arms["queue"]
    assert shed["refused"] > 300 and shed["refused"] + shed["requests"] == queued["requests"]
    assert shed["ttft_ms"]["max"] < 1000 < 10_000 < queued["ttft_ms"]["p95"]


def test_fair_order_protects_the_calm_tenant_from_a_flood(simulate: Simulate, make_stream: Make) -> None:
    flood = make_stream(tenant="flood", arrivals={"rate_per_s": 10}, suffix_tokens={"mean": 1000})
    calm = make_stream(arrivals={"rate_per_s": 0.2})
    arms = simulate(
        streams=[calm, flood],
        drain_s=2000,
        arms=[
            {"name": "arrival", "gateway": {"max_ongoing": 2}},
            {"name": "fair", "gateway": {"max_ongoing": 2, "order": "fair"}},
        ],
    )
    slow, fast = (arms[n]["tenants"]["t"]["ttft_ms"]["p95"] for n in ("arrival", "fair"))
    assert fast < 5000 < slow / 10


def test_priority_puts_voice_before_batch_in_the_engine(simulate: Simulate, make_kind: Make, make_stream: Make) -> None:
    streams = [
        make_stream(tenant="voice", priority=0, arrivals={"rate_per_s": 1}),
        make_stream(tenant="bulk", priority=10, arrivals={"process": "together", "count": 500}),
    ]
    arm = simulate(streams=streams, fleet={"k": make_kind(token_budget=100)})["a"]
    assert arm["tenants"]["voice"]["ttft_ms"]["p95"] < 400
    assert arm["tenants"]["bulk"]["ttft_ms"]["p95"] > 30_000


def test_batch_soaks_what_callers_leave_and_priority_keeps_it_behind_them(
    simulate: Simulate, make_kind: Make, make_stream: Make
) -> None:
    rows = {"rows": 100_000, "suffix_tokens": {"mean": 100}, "output_tokens": {"mean": 20}}
    aimd = {"target_ttft_ms": 150, "start": 5, "floor": 1, "add": 1, "reclaim_queue": 3}
    arms = simulate(
        fleet={"k": make_kind(replicas=2, token_budget=200)},
        duration_s=200,
        batch=rows,
        streams=[make_stream(arrivals={"rate_per_s": 4})],
        arms=[
            {"name": "alone"},
            {"name": "naive", "soak": {"concurrency": 200, "priority": 0}},
            {"name": "aimd", "soak": {"aimd": aimd, "interval_s": 1}},
        ],
    )
    alone, naive, aimd_p95 = (arms[n]["ttft_ms"]["p95"] for n in ("alone", "naive", "aimd"))
    assert naive > 20 * alone
    assert aimd_p95 < 2.5 * alone
    assert arms["aimd"]["batch"]["rows_done"] > 300
    assert arms["naive"]["batch"]["rows_done"] > arms["aimd"]["batch"]["rows_done"]
    assert arms["aimd"]["requests"] == arms["alone"]["requests"]


def test_packed_rows_leave_replicas_free(simulate: Simulate, make_kind: Make, make_stream: Make) -> None:
    data = {
        "fleet": {"k": make_kind(replicas=4, token_budget=200)},
        "batch": {"rows": 100_000, "suffix_tokens": {"mean": 100}, "output_tokens": {"mean": 50}},
        "streams": [make_stream(arrivals={"rate_per_s": 2})],
    }
    soak = {"concurrency": 20, "priority": 10}
    arms = simulate(
        arms=[{"name": "spread", "soak": soak}, {"name": "packed", "soak": soak | {"rows_per_replica": 10}}], **data
    )
    # A caller who finds an empty replica has a first token in 100 ms.
    assert arms["packed"]["ttft_ms"]["p50"] == pytest.approx(100)
    assert arms["spread"]["ttft_ms"]["p50"] > 105


def test_deaths_of_all_replicas_make_requests_wait_for_the_new_ones(simulate: Simulate, make_kind: Make) -> None:
    arm = simulate(fleet={"k": make_kind(replicas=3)}, failures=[{"at_s": 50, "replicas": 3}])["a"]
    assert arm["unfinished"] == 0
    assert 60_000 < arm["ttft_ms"]["max"] < 85_000  # the load time, then the queue that has formed
