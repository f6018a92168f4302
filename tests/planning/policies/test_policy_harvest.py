"""Harvest: the idle share, AIMD, reclaim, and a deadline."""

import pytest
from pydantic import ValidationError

from planning.policies.harvest import Harvest, HarvestConfig, Job, Online, lent_replicas, start, step

CONFIG = HarvestConfig(target_ttft_ms=100, start=20, floor=5, ceiling=200, add=2)
WELL = Online(p95_ttft_ms=50, queue_per_replica=0)
ILL = Online(p95_ttft_ms=150, queue_per_replica=0)


def after(state: Harvest, online: Online | None, steps: int, from_s: float = 0.0, job: Job | None = None) -> Harvest:
    for i in range(steps):
        state = step(CONFIG, state, online, job, from_s + 2.0 * i)
    return state


def test_it_climbs_by_addition_up_to_the_ceiling() -> None:
    assert after(start(CONFIG), WELL, 10).concurrency == 40
    assert after(start(CONFIG), WELL, 500).concurrency == 200


def test_a_bad_step_halves_and_the_next_waits_for_its_effect() -> None:
    state = step(CONFIG, Harvest(100, 100), ILL, None, 0.0)
    assert (state.concurrency, state.reason) == (50, "less")
    state = step(CONFIG, state, ILL, None, 2.0)
    assert (state.concurrency, state.reason) == (50, "hold")
    assert step(CONFIG, state, ILL, None, 6.0).concurrency == 25


def test_it_goes_no_lower_than_the_floor() -> None:
    assert after(start(CONFIG), ILL, 100).concurrency == 5


def test_errors_count_as_suffering() -> None:
    assert step(CONFIG, Harvest(100, 100), Online(50, 0, errors=1), None, 0.0).concurrency == 50


def test_near_the_target_or_behind_the_gate_it_holds() -> None:
    assert step(CONFIG, Harvest(50, 50), Online(95, 0), None, 0.0).concurrency == 50
    assert step(CONFIG, Harvest(50, 50), Online(50, 1.5), None, 0.0).concurrency == 50


def test_callers_take_their_share_at_once_and_give_it_back_at_once() -> None:
    state = step(CONFIG, Harvest(100, 100), Online(50, 0, idle_share=0.2), None, 0.0)
    assert state.concurrency == pytest.approx(20.4)
    assert step(CONFIG, state, Online(50, 0, idle_share=1.0), None, 2.0).concurrency == 104


def test_a_long_queue_takes_all_back_and_is_forgiven_when_it_is_gone() -> None:
    state = step(CONFIG, Harvest(100, 100), Online(50, 10), None, 0.0)
    assert (state.concurrency, state.reason) == (0, "reclaim")
    state = step(CONFIG, state, Online(50, 10), None, 1.0)
    assert state.concurrency == 0
    assert step(CONFIG, state, WELL, None, 2.0).concurrency == 52


def test_without_metrics_it_goes_down_to_the_floor_and_never_up() -> None:
    state, last = Harvest(160, 80), 80.0
    for i in range(60):
        state = step(CONFIG, state, None, None, 2.0 * i)
        assert state.concurrency <= last
        last = state.concurrency
    assert (state.concurrency, state.reason) == (5, "no metrics")


def test_nobody_calling_is_not_suffering() -> None:
    assert step(CONFIG, Harvest(50, 50), Online(None, 0), None, 0.0).concurrency == 52


def test_behind_its_deadline_it_says_so_early_and_climbs_faster() -> None:
    # 1,000 rows at 2 a second are 500 s; 200 s are left: 300 s late, and 2.5 times too slow.
    state = step(CONFIG, Harvest(50, 50), WELL, Job(1000, 2.0, deadline_s=300), 100.0)
    assert state.late_s == 300
    assert state.concurrency == 55
    in_time = step(CONFIG, Harvest(50, 50), WELL, Job(1000, 10.0, deadline_s=300), 100.0)
    assert (in_time.late_s, in_time.concurrency) == (0, 52)
    # Past it the climb is bounded, and what callers bear still comes first.
    assert step(CONFIG, Harvest(50, 50), WELL, Job(10, 1.0, deadline_s=50), 100.0).concurrency == 66
    assert step(CONFIG, Harvest(50, 50), ILL, Job(10, 1.0, deadline_s=50), 100.0).concurrency == 25


def test_rows_are_packed() -> None:
    assert [lent_replicas(c, 50) for c in (0, 1, 50, 51, 200)] == [0, 1, 1, 2, 4]


def test_bounds_that_are_not_in_order_are_refused() -> None:
    with pytest.raises(ValidationError, match="not in order"):
        HarvestConfig(target_ttft_ms=100, start=3, floor=5)
