"""The autoscaling policy without Serve: what replicas say, made into planning's observations and decisions."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError

from configs.scaling import ScalingConfig
from serve_apps import autoscaling
from serve_apps.autoscaling import HeadroomPolicy, WorkReader
from serve_apps.autoscaling_config import scale_config
from serve_apps.autoscaling_stats import WorkTally


@dataclass
class Point:
    timestamp: float
    value: float


def said(**by_replica: tuple[float, float]) -> dict[str, dict[str, list[Point]]]:
    """(its own time, resource tokens so far) of each."""
    return {"arrived_rt": {name: [Point(*told)] for name, told in by_replica.items()}}


def test_rates_are_each_replicas_own_whenever_it_spoke() -> None:
    reader = WorkReader(1000, 60)
    assert reader.read(said(a=(100, 5000), b=(777, 0)), ["a", "b"], 2, 0.0) is None  # a counter alone is no rate
    # a did 2,000 in its ten seconds, b nothing new yet: taken to be like a
    seen = reader.read(said(a=(110, 7000), b=(777, 0)), ["a", "b"], 3, 5.0)
    assert seen is not None
    assert (seen.offered_replica_s / seen.interval_s, seen.ready, seen.pending) == (pytest.approx(0.4), 2, 1)
    seen = reader.read(said(a=(110, 7000), b=(787, 6000)), ["a", "b"], 2, 10.0)
    assert seen is not None and seen.offered_replica_s / seen.interval_s == pytest.approx(0.2 + 0.6)


def test_silence_a_set_back_clock_and_a_new_start_are_no_measurement() -> None:
    reader = WorkReader(1000, 60)
    reader.read(said(a=(100, 0)), ["a"], 1, 0.0)
    assert reader.read(said(a=(50, 9000)), ["a"], 1, 5.0) is None  # its clock was set back
    assert reader.read(said(a=(60, 9500)), ["a"], 1, 10.0) is not None
    assert reader.read(said(a=(60, 9500)), ["a"], 1, 69.0) is not None
    assert reader.read(said(a=(60, 9500)), ["a"], 1, 71.0) is None  # a minute without a word
    assert reader.read({}, [], 1, 80.0) is None


def test_replicas_that_leave_are_no_supply() -> None:
    reader = WorkReader(1000, 60)
    reader.read(said(a=(0, 0), b=(0, 0)), ["a", "b"], 2, 0.0)
    seen = reader.read(said(a=(5, 0), b=(5, 0)), ["a", "b"], 1, 5.0)
    assert seen is not None and (seen.ready, seen.pending) == (1, 0)


@dataclass
class Context:
    """Serve's, as far as the policy looks."""

    target_num_replicas: int
    running_replicas: list[str]
    raw_metrics: dict[str, Any] = field(default_factory=dict)
    deployment_name: str = "llm"


def make(**changes: Any) -> HeadroomPolicy:
    scale = {"min_replicas": 2, "max_replicas": 20, "utilization_ceiling": 0.8, "headroom_fraction": 0.0} | changes
    return HeadroomPolicy(scale, 1000, 5.0, {"voice": 1.5})


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 1000.0
        monkeypatch.setattr(autoscaling.time, "monotonic", lambda: self.now_s)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_it_decides_by_the_interval_and_pending_replicas_are_supply(clock: Clock) -> None:
    policy = make(smooth_s=1.0)
    for tick, (arrived, target) in enumerate([(0, 2), (12_000, 2), (24_000, 6), (36_000, 6)]):
        metrics = said(a=(tick * 5.0, arrived), b=(tick * 5.0, arrived))
        wanted = policy(Context(target, ["a", "b"], metrics))[0]
        # 2 · 2,400 a second are 4.8 busy: six at 0.8, whether four of them load or not
        assert wanted == (2 if tick == 0 else 6)
        assert policy(Context(target, ["a", "b"], {}))[0] == wanted  # asked again between two decisions
        clock.now_s += 5


def test_one_that_begins_anew_takes_what_runs_for_what_is_needed(clock: Clock) -> None:
    policy = make(look_back_s=100.0)
    names = [str(n) for n in range(10)]
    wanted = []
    for tick in range(60):
        metrics = said(**dict.fromkeys(names, (tick * 5.0, 0.0)))
        wanted.append(policy(Context(wanted[-1] if wanted else 10, names, metrics))[0])
        clock.now_s += 5
    assert wanted[20] == 10 and wanted[-1] == 2


def test_at_application_level_the_others_follow(clock: Clock) -> None:
    policy = make()
    contexts = {"L": Context(4, []), "V": Context(1, [], deployment_name="voice")}
    assert policy(contexts)[0] == {"L": 4, "V": 6}
    clock.now_s += 5
    contexts = {"L": Context(0, []), "V": Context(0, [], deployment_name="voice")}
    assert policy(contexts)[0] == {"L": 2, "V": 3}, "no replicas and no metrics end at the floor"


def test_the_load_time_makes_the_headroom(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    from planning.policies import scale

    monkeypatch.setattr(scale, "headroom_fraction", lambda demand, lag, quantile: asked.append((lag, quantile)) or 1.0)
    config = scale_config(ScalingConfig(max_replicas=50), load_time_s=240)
    scaler = scale.Scaler(config)
    wanted = [
        scaler.step(scale.Observation(60 * 8.0, 60, 0, 20, 0), 20, minute * 60.0).replicas for minute in range(400)
    ]
    # 8 busy · 1.2 / 0.8 = 12 as configured: 19 of 20 do. · 2 / 0.8 = 20 once six hours are known to double.
    assert asked[0] == (1, 0.95)  # 240 s and 30 s to notice are a step of 300 s
    assert (wanted[0], wanted[-1]) == (19, 20)


@pytest.mark.parametrize(
    ("function", "changed"),
    [("replicas_for", lambda busy, ceiling: 17), ("target_utilization", lambda ceiling, fraction: 2.4 / 17)],
)
def test_the_policy_obeys_planning(function: str, changed: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    from planning.policies import scale

    def decided() -> int:
        policy = make(smooth_s=1.0)
        for tick in range(2):
            wanted: int = policy(Context(2, ["a", "b"], said(a=(tick * 5.0, tick * 6e3), b=(tick * 5.0, tick * 6e3))))[
                0
            ]
            clock.now_s += 5
        return wanted

    assert decided() == 3  # 2.4 busy at 0.8
    monkeypatch.setattr(scale, function, changed)
    assert decided() == 17


def test_contradictory_bounds_are_refused() -> None:
    with pytest.raises(ValidationError, match="max_replicas = 1 is under min_replicas = 2"):
        ScalingConfig(min_replicas=2, max_replicas=1)


@dataclass
class Report:
    used_rt: float


async def replies(*items: Any) -> AsyncGenerator[Any, None]:
    for item in items:
        yield item


async def test_work_counts_at_its_estimate_and_ends_at_what_it_came_to() -> None:
    tally = WorkTally(lambda body: 100.0)
    stream = tally.follow(replies("a", Report(30.0)), "body", batch=False)
    assert await anext(stream) == "a"
    assert tally.stats() == {"arrived_rt": 100, "queued_rt": 0, "lent": 0}
    assert [item async for item in stream] == [Report(30.0)]
    assert tally.stats() == {"arrived_rt": 30, "queued_rt": 0, "lent": 0}
    left = tally.follow(replies("a", "b"), "body", batch=False)
    await anext(left)
    await left.aclose()
    assert tally.stats() == {"arrived_rt": 130, "queued_rt": 0, "lent": 0}


async def test_batch_is_no_demand_and_its_replica_is_supply() -> None:
    tally = WorkTally(lambda body: 100.0)
    batch = tally.follow(replies("a", "b"), "body", batch=True)
    await anext(batch)
    assert tally.stats() == {"arrived_rt": 0, "queued_rt": 0, "lent": 1}
    caller = tally.follow(replies("a", "b"), "body", batch=False)
    await anext(caller)
    assert tally.stats()["lent"] == 0
    await batch.aclose()
    await caller.aclose()
