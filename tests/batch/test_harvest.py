"""The controller: what callers leave, divided between jobs, and what it cost them."""

from collections.abc import Iterator

import pytest

from batch.gate import Fares, Gate
from batch.harvest import Controller, HarvestShare, Reading
from planning.policies.harvest import HarvestConfig
from tests.batch.conftest import Clock

IDLE = Reading([], 0, 0.0)


class Nobody:
    def read(self) -> None:
        return None


@pytest.fixture
def controller(clock: Clock) -> Iterator[Controller]:
    config = HarvestConfig(target_ttft_ms=200, start=4, floor=0, ceiling=8, settle_s=1)
    made = Controller(HarvestShare(config, 3600, Nobody()), clock)
    yield made
    made.close()


def steps(controller: Controller, clock: Clock, reading: Reading | None, count: int = 1) -> None:
    for _ in range(count):
        clock.now_s += 1
        controller.step([reading] if reading else None, 1.0)


def test_an_idle_fleet_is_used_up_to_the_ceiling(controller: Controller, clock: Clock) -> None:
    steps(controller, clock, IDLE, 10)
    assert controller.allowed("a", 100, clock.now_s + 1000, Fares(0)) == 8


def test_jobs_have_equal_parts_and_the_nearest_deadline_what_is_left_over(controller: Controller, clock: Clock) -> None:
    steps(controller, clock, IDLE, 3)
    for _ in range(2):
        parts = [controller.allowed(job, 100, clock.now_s + due_s, Fares(0)) for job, due_s in (("a", 900), ("b", 100))]
    assert parts == [3, 4]
    controller.leave("b")
    assert controller.allowed("a", 100, clock.now_s + 900, Fares(0)) == 7


def test_a_burst_takes_all_back_at_the_next_step(controller: Controller, clock: Clock) -> None:
    steps(controller, clock, IDLE, 10)
    steps(controller, clock, Reading([150.0] * 5, 9, 1.0))
    assert controller.allowed("a", 100, clock.now_s + 1000, Fares(8)) == 0
    assert controller.report("a")["reason"] == "reclaim"


def test_a_slow_caller_halves_it_and_the_p95_forgets(controller: Controller, clock: Clock) -> None:
    steps(controller, clock, IDLE, 10)
    steps(controller, clock, Reading([500.0], 0, 0.0))
    assert controller.allowed("a", 100, clock.now_s + 1000, Fares(0)) == 4
    steps(controller, clock, IDLE, 40)
    assert controller.allowed("a", 100, clock.now_s + 1000, Fares(0)) == 8


def test_a_busy_replica_has_nothing_to_give(controller: Controller, clock: Clock) -> None:
    steps(controller, clock, IDLE, 10)
    steps(controller, clock, Reading([50.0], 0, 1.0))
    assert controller.allowed("a", 100, clock.now_s + 1000, Fares(0)) == 0


def test_without_metrics_it_goes_down_as_if_callers_suffered(controller: Controller, clock: Clock) -> None:
    steps(controller, clock, IDLE, 10)
    steps(controller, clock, None, 5)
    assert controller.allowed("a", 100, clock.now_s + 1000, Fares(0)) == 0


def test_an_engine_that_refuses_rows_gets_fewer(controller: Controller, clock: Clock) -> None:
    steps(controller, clock, IDLE, 10)
    controller.allowed("a", 100, clock.now_s + 1000, Fares(8, refusals=3))
    steps(controller, clock, IDLE)
    assert controller.allowed("a", 100, clock.now_s + 1000, Fares(0)) == 4


def test_a_batch_that_will_be_late_says_so_early(controller: Controller, clock: Clock) -> None:
    due_s = clock.now_s + 100
    controller.allowed("a", 1000, due_s, Fares(0))
    clock.now_s += 10
    controller.allowed("a", 950, due_s, Fares(0))  # five a second
    steps(controller, clock, IDLE)
    assert controller.report("a")["late_s"] == pytest.approx(950 / 5 - 89, abs=1)


def test_the_ledger_tells_idle_time_and_callers_beside_batch_from_those_alone(
    controller: Controller, clock: Clock
) -> None:
    steps(controller, clock, Reading([100.0], 0, 0.25), 2)
    controller.allowed("a", 10, clock.now_s + 100, Fares(3))
    steps(controller, clock, Reading([120.0], 0, 0.5, longest_step_ms=90))
    steps(controller, clock, Reading([], 0, 1.0, longest_step_ms=70))
    report = controller.report("a")
    assert report["longest_step_ms"] == 90
    assert report["idle_replica_hours"] == pytest.approx((0.75 * 2 + 0.5) / 3600)
    assert report["online_p95_ttft_ms"] == {"beside_batch": 120.0, "alone": 100.0}


def test_how_long_callers_wait_for_what_is_theirs_is_measured(controller: Controller, clock: Clock) -> None:
    steps(controller, clock, IDLE, 10)
    controller.allowed("a", 100, clock.now_s + 1000, Fares(8))
    steps(controller, clock, Reading([150.0] * 5, 9, 1.0))
    clock.now_s += 0.5
    controller.allowed("a", 100, clock.now_s + 1000, Fares(3))
    assert controller.report("a")["reclaim_p95_s"] is None
    clock.now_s += 0.25
    controller.allowed("a", 100, clock.now_s + 1000, Fares(0))
    assert controller.report("a")["reclaim_p95_s"] == pytest.approx(1.75)


def test_the_gate_divides_between_actors_and_collects_their_troubles() -> None:
    gate = Gate()
    gate.set(5, False)
    gate.ask("one", Fares(0))
    gate.ask("two", Fares(2, refusals=1, trouble="status 503"))
    assert [gate.ask(actor, Fares(2)).concurrency for actor in ("one", "two")] == [3, 2]
    assert gate.set(0, True) == Fares(4, 1, 0, "status 503")
    assert gate.set(0, True) == Fares(4)
    assert gate.ask("one", Fares(0)).stop
