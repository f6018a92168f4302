"""Scaling in whole runs: loads take their time, nothing is cut, outages and quiet nights take nothing needed away."""

from collections.abc import Callable
from typing import Any

import pytest

from planning.simulator.peers import FleetView, GpuUtilisationScaling, LlmdSaturationScaling, RayServeScaling

Simulate = Callable[..., dict[str, Any]]
Make = Callable[..., dict[str, Any]]

OURS = {
    "rule": "headroom",
    "headroom": {
        "min_replicas": 2,
        "max_replicas": 30,
        "utilization_ceiling": 0.6,
        "look_back_s": 300,
        "service_time_s": 0.12,
    },
}


def test_a_rise_is_met_one_load_time_later_and_a_fall_without_cutting_a_stream(
    simulate: Simulate, make_kind: Make, make_stream: Make
) -> None:
    # 100 prompt tokens at 1,000/s and 10 output tokens at 500/s: 0.12 replica-seconds a request.
    arm = simulate(
        duration_s=2400,
        fleet={"k": make_kind(replicas=4)},
        streams=[make_stream(arrivals={"rate_per_s": 60, "pattern": [0.2, 1.0, 0.2, 0.2], "pattern_step_s": 600})],
        arms=[{"name": "a", "scale": OURS}],
    )["a"]
    # 60 a second are 7.2 busy replicas: over 0.6 / 1.2 that is 14.4, and more while the backlog is cleared.
    assert 15 <= arm["peak_replicas"] <= 30
    assert (arm["unfinished"], arm["retried"]) == (0, 0)
    assert arm["scale_reversals"] <= 2
    # All of it at the peak's number would be 10 hours.
    assert arm["replica_hours"] < 8


def test_a_metrics_outage_changes_nothing(simulate: Simulate, make_kind: Make, make_stream: Make) -> None:
    data = {
        "duration_s": 1200,
        "fleet": {"k": make_kind(replicas=6)},
        "streams": [make_stream(arrivals={"rate_per_s": 20})],
        "arms": [{"name": "a", "scale": OURS}],
    }
    arm = simulate(outages=[{"at_s": 0, "duration_s": 1200}], **data)["a"]
    assert arm["scale_changes"] == 0
    assert simulate(**data)["a"]["scale_changes"] >= 0
    dead = simulate(
        outages=[{"at_s": 100, "duration_s": 1100}], failures=[{"at_s": 300, "replicas": 6, "replace": False}], **data
    )["a"]
    assert dead["unfinished"] == 0  # the floor holds in the dark: two come back, and the look-back's need after it


def test_no_traffic_ends_at_the_floor(simulate: Simulate, make_kind: Make, make_stream: Make) -> None:
    arm = simulate(
        duration_s=3600,
        fleet={"k": make_kind(replicas=6)},
        streams=[make_stream(arrivals={"process": "together", "count": 1, "at_s": 3599})],
        arms=[{"name": "a", "scale": OURS}],
    )["a"]
    # Six go to two within a minute and stay.
    assert arm["replica_hours"] == pytest.approx(2.0, rel=0.05)


def view(now_s: float = 0.0, **changes: Any) -> FleetView:
    base = {
        "ready": 10,
        "pending": 0,
        "interval_s": 10.0,
        "ongoing": 0,
        "busy_share": 0.8,
        "kv_used_tokens": 0.0,
        "queued_prompt_tokens": 0.0,
        "saturated_kv_tokens": [],
        "kv_capacity_tokens": 1000.0,
    }
    return FleetView(now_s=now_s, **(base | changes))


def test_ray_serve_waits_its_delays_and_averages() -> None:
    rule = RayServeScaling(target_ongoing_requests=2, min_replicas=1, max_replicas=100)
    assert [rule.step(view(t, ongoing=40)) for t in (0, 10, 20)] == [10, 10, 10]
    assert rule.step(view(30, ongoing=40)) == 20
    assert rule.step(view(100, ready=20, ongoing=10)) == 20
    assert rule.step(view(699, ready=20, ongoing=10)) == 20
    assert rule.step(view(700, ready=20, ongoing=10)) == 5


def test_gpu_utilisation_reads_a_busy_engine_as_full_and_tolerates_a_tenth() -> None:
    rule = GpuUtilisationScaling(min_replicas=1, max_replicas=100)
    assert rule.step(view(0, busy_share=0.87)) == 10
    assert rule.step(view(10, busy_share=1.0)) == 13  # 10 / 0.8 = 12.5
    rule = GpuUtilisationScaling(min_replicas=1, max_replicas=100)
    assert rule.step(view(0, busy_share=0.8)) == 10
    assert rule.step(view(100, busy_share=0.4)) == 10  # ten were wished for a while ago
    assert rule.step(view(301, busy_share=0.4)) == 5


def test_llmd_counts_tokens_and_pending_replicas() -> None:
    # 0.8 · 1,000 tokens a replica. 7,000 in use and queued over 0.85 are 8,235: 0.3 of a replica over ten's 8,000.
    assert LlmdSaturationScaling(1, 100).step(view(kv_used_tokens=6000, queued_prompt_tokens=1000)) == 11
    assert LlmdSaturationScaling(1, 100).step(view(kv_used_tokens=6000, queued_prompt_tokens=1000, pending=1)) == 11
    # 2,790 over 0.70 are 3,986: five of ten are spare, but not while others load.
    assert LlmdSaturationScaling(1, 100).step(view(kv_used_tokens=2790)) == 5
    assert LlmdSaturationScaling(1, 100).step(view(kv_used_tokens=2790, pending=1)) == 11
    # Queues of five at 500 tokens in use show that compute binds first: 500 a replica.
    rule = LlmdSaturationScaling(1, 100)
    assert rule.step(view(kv_used_tokens=5000, saturated_kv_tokens=[500])) == 12
    assert rule.step(view(10, kv_used_tokens=9000)) == 10  # it looks every 30 s
