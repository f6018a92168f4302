"""Scaling: headroom, pending replicas as supply, n - 1 on paper, a floor that holds, no flapping."""

import random
from itertools import pairwise

import pytest
from pydantic import ValidationError

from planning.policies import scale
from planning.policies.scale import Observation, ScaleConfig, Scaler

# Target utilisation 0.8 / 1.25 = 0.64.
CONFIG = ScaleConfig(
    min_replicas=2, max_replicas=50, utilization_ceiling=0.8, headroom_fraction=0.25, smooth_s=5, look_back_s=600
)


def seen(busy: float, ready: int, pending: int = 0, backlog_s: float = 0.0, lent: int = 0) -> Observation:
    return Observation(busy * 5, 5.0, backlog_s, ready, pending, lent)


def test_demand_and_headroom_set_the_number() -> None:
    # 10 busy replicas over 0.64 are 15.6.
    decision = Scaler(CONFIG).step(seen(10, ready=12), 12, 0.0)
    assert (decision.replicas, decision.reason) == (16, "demand")


def test_the_headroom_is_the_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "target_utilization", lambda utilization_ceiling, fraction: 0.5)
    assert Scaler(CONFIG).step(seen(10, ready=12), 12, 0.0).replicas == 20


def test_the_n_minus_1_wait_is_the_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Scaler(CONFIG).step(seen(1, ready=12), 12, 0.0).replicas == 11
    monkeypatch.setattr(scale, "waits_s", lambda *a: (1e9, 1e9))
    assert Scaler(CONFIG).step(seen(1, ready=12), 12, 0.0).replicas == 12


def test_pending_replicas_are_supply() -> None:
    scaler = Scaler(CONFIG)
    assert scaler.step(seen(10, ready=12), 12, 0.0).replicas == 16
    assert scaler.step(seen(10, ready=12, pending=4), 16, 5.0).replicas == 16


def test_a_backlog_is_cleared_within_clear_s() -> None:
    # 60 replica-seconds within 30 s are two more busy replicas: 12 / 0.64 = 18.75.
    assert Scaler(CONFIG).step(seen(10, ready=12, backlog_s=60), 12, 0.0).replicas == 19


def test_it_goes_down_one_by_one_and_only_as_far_as_the_look_back_allows() -> None:
    scaler = Scaler(CONFIG)
    replicas = scaler.step(seen(10, ready=16), 16, 0.0).replicas
    assert replicas == 16
    least = replicas
    for tick in range(1, 119):
        decision = scaler.step(seen(2, ready=replicas), replicas, tick * 5.0)
        assert replicas - decision.replicas in (0, 1)
        replicas = decision.replicas
        least = min(least, replicas)
    assert least == 16  # 15 · 0.64 · 0.9 = 8.6: the ten of a while ago would not have fitted
    for tick in range(119, 300):
        replicas = scaler.step(seen(2, ready=replicas), replicas, tick * 5.0).replicas
    assert replicas == 4  # 2 busy: 3 · 0.64 · 0.9 = 1.7 is too little, 4 · 0.64 · 0.9 = 2.3 is not


def test_zero_traffic_ends_at_the_floor() -> None:
    scaler = Scaler(CONFIG)
    replicas = 20
    for tick in range(400):
        replicas = scaler.step(seen(0, ready=replicas), replicas, tick * 5.0).replicas
        assert replicas >= 2
    assert replicas == 2
    assert scaler.step(seen(0, ready=0), 0, 3000.0).replicas == 2


def test_a_metrics_outage_takes_nothing_away_and_brings_back_the_look_backs_most() -> None:
    scaler = Scaler(CONFIG)
    scaler.step(seen(10, ready=16), 16, 0.0)
    for tick in range(1, 20):
        assert scaler.step(None, 16, tick * 5.0).replicas == 16
    # Replicas that die meanwhile are replaced once the outage is longer than hold_s.
    assert scaler.step(None, 9, 100.0).replicas == 9
    assert scaler.step(None, 9, 130.0).replicas == 16
    assert Scaler(CONFIG).step(None, 0, 0.0).replicas == 2


def test_no_flapping_over_half_an_hour_of_noise() -> None:
    scaler = Scaler(CONFIG.model_copy(update={"smooth_s": 30.0}))
    rng = random.Random(7)
    replicas, directions = 16, []
    for tick in range(360 * 3):
        decision = scaler.step(seen(max(0.0, rng.gauss(10, 2)), ready=replicas), replicas, tick * 5.0)
        if decision.replicas != replicas:
            directions.append(decision.replicas > replicas)
        replicas = decision.replicas
    reversals = sum(a != b for a, b in pairwise(directions))
    assert reversals <= 1
    assert 15 <= replicas <= 20


def test_lent_replicas_serve_bursts_not_every_day() -> None:
    # Ten busy fit on 20 - 1; with ten of them lent to batch, only nine would be left for them.
    assert Scaler(CONFIG).step(seen(10, ready=20), 20, 0.0).replicas == 19
    assert Scaler(CONFIG).step(seen(10, ready=20, lent=10), 20, 0.0).replicas == 20


def test_more_demand_never_asks_for_fewer() -> None:
    wanted = [Scaler(CONFIG).step(seen(b / 4, ready=8), 8, 0.0).replicas for b in range(200)]
    assert wanted == sorted(wanted)
    assert wanted[-1] == 50  # the ceiling


def test_a_clock_that_steps_back_and_an_empty_interval_are_no_metrics() -> None:
    scaler = Scaler(CONFIG)
    scaler.step(seen(10, ready=16), 16, 1000.0)
    assert scaler.step(Observation(5, -3.0, 0, 16, 0), 16, 997.0).replicas == 16
    assert scaler.step(Observation(0, 0.0, 0, 16, 0), 16, 1000.0).reason == "no metrics"


def test_contradictory_bounds_are_refused() -> None:
    with pytest.raises(ValidationError, match="max_replicas = 2 is under min_replicas = 3"):
        ScaleConfig(min_replicas=3, max_replicas=2)
