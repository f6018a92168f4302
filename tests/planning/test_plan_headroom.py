import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from configs.errors import InputError
from planning.headroom import batch_replicas_needed, burst_wait_s

CASE = {
    "demand": [4, 5, 6, 8, 10, 10],
    "step_s": 60,
    "load_time_s": 90,
    "detect_s": 30,
    "quantile": 0.5,
    "utilization_ceiling": 0.8,
    "burst": {"factor": 3, "duration_s": 100},
    "reclaim_s": 20,
    "max_wait_s": 12,
}


def test_by_hand(answer):
    # Two steps' growth where demand is 5 or more: 8/5, 10/6, 10/8; the median is 1.6.
    out = answer("headroom", **CASE)
    assert out.lag_s == 120
    assert out.headroom_fraction == pytest.approx(0.6)
    assert out.target_utilization == pytest.approx(0.5)
    assert out.replicas == 20
    # 30 busy on 20 replicas for 100 s: 1,000 replica-seconds behind.
    assert out.burst_wait_s == pytest.approx(50)
    # 8 more: at 100 s 1,000 - 8 · 80 = 360 over 28 is 12.9 s; 9 more: 280 over 29 is 9.7 s.
    assert out.batch_replicas_needed == 9


def test_a_quantile_between_two_steps_is_interpolated(answer):
    # 0.75 of the way through 1.25, 1.6, 1.6667: half of the way from 1.6 to 1.6667.
    assert answer("headroom", **{**CASE, "quantile": 0.75}).headroom_fraction == pytest.approx(0.6 + 1 / 30)


def test_a_falling_day_needs_no_headroom(answer):
    out = answer("headroom", **{**CASE, "demand": [10, 9, 8, 7]})
    assert (out.headroom_fraction, out.target_utilization) == (0, 0.8)


def test_nothing_to_load_is_no_headroom(answer):
    out = answer("headroom", **{**CASE, "load_time_s": 0, "detect_s": 0})
    assert (out.lag_s, out.headroom_fraction, out.burst_wait_s) == (0, 0, 0)


def test_batch_that_comes_too_late_is_null(answer):
    # 10 s behind when batch replicas come: over 9 whatever their number.
    assert answer("headroom", **{**CASE, "max_wait_s": 9}).batch_replicas_needed is None
    assert answer("headroom", **{**CASE, "reclaim_s": 200}).batch_replicas_needed is None


def test_new_replicas_end_a_longer_burst(answer):
    long = {**CASE, "burst": {"factor": 3, "duration_s": 1e6}}
    assert answer("headroom", **long).burst_wait_s == pytest.approx(60)  # 1,200 behind over 20, at 120 s


STEPS = 4000


def longest_wait(demand, capacity, judged_s, reclaim_s, extra):
    """The same by small steps of time."""
    backlog, longest, dt = 0.0, 0.0, judged_s / STEPS
    for i in range(STEPS):
        now = capacity + (extra if i * dt >= reclaim_s else 0)
        backlog = max(0.0, backlog + (demand - now) * dt)
        longest = max(longest, backlog / now)
    return longest


@settings(max_examples=40, deadline=None)
@example(demand=38.0, capacity=1, judged_s=31.0, reclaim_s=0.0078125, max_wait_s=0.5)
@given(
    demand=st.floats(1, 100),
    capacity=st.integers(1, 50),
    judged_s=st.floats(10, 300),
    reclaim_s=st.floats(0, 60),
    max_wait_s=st.floats(0.5, 60),
)
def test_the_burst_agrees_with_small_steps_of_time(demand, capacity, judged_s, reclaim_s, max_wait_s):
    step_wait_s = judged_s / STEPS * demand / capacity  # what one of longest_wait's steps adds at most
    rough = {"rel": 0.02, "abs": 0.05 + step_wait_s}
    assert burst_wait_s(demand, capacity, judged_s) == pytest.approx(
        longest_wait(demand, capacity, judged_s, judged_s, 0), **rough
    )
    needed = batch_replicas_needed(demand, capacity, judged_s, reclaim_s, max_wait_s)
    if needed is None:
        assert longest_wait(demand, capacity, judged_s, reclaim_s, 10**6) > max_wait_s * 0.97 - 2 * step_wait_s
        return
    assert longest_wait(demand, capacity, judged_s, reclaim_s, needed) <= max_wait_s * 1.02 + 0.05 + 2 * step_wait_s
    if needed:
        assert (
            longest_wait(demand, capacity, judged_s, reclaim_s, needed - 1)
            >= max_wait_s * 0.98 - 0.05 - 2 * step_wait_s
        )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.1, 50), min_size=8, max_size=20), st.floats(1, 5))
def test_more_traffic_never_fewer_replicas(answer, demand, more):
    demand = [*demand, *[max(demand)] * 3]
    base = answer("headroom", **{**CASE, "demand": demand}).replicas
    assert answer("headroom", **{**CASE, "demand": [d * more for d in demand]}).replicas >= base


@pytest.mark.parametrize(
    ("demand", "problem"),
    [([0, 0, 0, 0], "no step has any demand"), ([1, 1, 1, 10], "followed by the 2 steps"), ([5], "followed by")],
)
def test_a_series_that_shows_no_growth_is_an_error(answer, demand, problem):
    with pytest.raises(InputError, match=f"demand.*{problem}"):
        answer("headroom", **{**CASE, "demand": demand})


def test_finding_four_minutes_are_a_headroom_and_batch_absorbs_the_burst(of_reference):
    out, sentence = of_reference("headroom")
    assert 0 < out.headroom_fraction < 1
    assert out.burst_wait_s > 5 and out.batch_replicas_needed > 0
    assert "3.9 minutes is a headroom of" in sentence and "batch replicas" in sentence
