"""headroom: the replicas kept free because new ones take time to load, and the burst that no scaler can catch.

Demand is measured in busy replicas a step. The headroom is the growth, at a quantile of the busy steps, over the time
that a new replica takes to be noticed and loaded. What comes faster than that has to be taken from batch work.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from configs.errors import InputError
from configs.schema import Frozen
from planning.quantities import Ceiling, Fraction, NonNegative, Outputs, Positive, Scenario, round_up
from planning.topic import Picture, Row, Topic, between, sweep


class Burst(Frozen):
    """Demand at `factor` times the series' maximum for `duration_s`."""

    factor: Positive
    duration_s: NonNegative


class HeadroomScenario(Scenario):
    demand: Annotated[tuple[NonNegative, ...], Field(min_length=1)]
    step_s: Positive
    load_time_s: NonNegative
    detect_s: NonNegative
    quantile: Fraction
    utilization_ceiling: Ceiling
    burst: Burst
    reclaim_s: NonNegative
    max_wait_s: NonNegative


class HeadroomOutputs(Outputs):
    lag_s: Annotated[float, Row("⌈(load_time_s + detect_s) / step_s⌉ · step_s", "s")]
    headroom_fraction: Annotated[float, Row("max(0, quantile of demand[t + lag] / demand[t] in busy steps − 1)")]
    target_utilization: Annotated[float, Row("utilization_ceiling / (1 + headroom_fraction)")]
    replicas: Annotated[int, Row("⌈max(demand) · (1 + headroom_fraction) / utilization_ceiling⌉", "replicas")]
    burst_wait_s: Annotated[float, Row("largest backlog / capacity of the burst, no batch replica taken", "s")]
    batch_replicas_needed: Annotated[
        int | None, Row("fewest batch replicas, from reclaim_s on, that keep it within max_wait_s", "replicas")
    ]


def quantile_of(values: Sequence[float], q: float) -> float:
    """The q-quantile, linearly interpolated between order statistics (Hyndman and Fan's type 7)."""
    ordered = sorted(values)
    position = (len(ordered) - 1) * q
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def lag_steps(load_time_s: float, detect_s: float, step_s: float) -> int:
    """Whole steps from a rise in demand until a replica started for it serves."""
    return round_up((load_time_s + detect_s) / step_s)


def headroom_fraction(demand: Sequence[float], lag: int, quantile: float) -> float:
    """What demand grows by in `lag` steps, at this quantile of the steps at half the maximum or over it.

    Raises InputError where the series does not show it: no demand, or no busy step with `lag` steps after it.
    """
    peak = max(demand)
    if peak <= 0:
        raise InputError("headroom", "demand", list(demand), "no step has any demand")
    growth = [later / now for now, later in zip(demand, demand[lag:], strict=False) if now >= peak / 2]
    if not growth:
        problem = f"no step at half the maximum is followed by the {lag} steps that a replica takes to come; give more"
        raise InputError("headroom", "demand", list(demand), problem)
    return max(0.0, quantile_of(growth, quantile) - 1)


def target_utilization(utilization_ceiling: float, fraction: float) -> float:
    """How busy replicas may be, on average, so that growth during a load stays under the ceiling."""
    return utilization_ceiling / (1 + fraction)


def burst_wait_s(demand: float, capacity: float, judged_s: float) -> float:
    """The longest wait (s) of a burst of `demand` busy replicas on `capacity`, `judged_s` seconds of it."""
    return max(0.0, demand - capacity) * judged_s / capacity


def batch_replicas_needed(
    demand: float, capacity: float, judged_s: float, reclaim_s: float, max_wait_s: float
) -> int | None:
    """The fewest batch replicas, serving from reclaim_s on, that keep every wait within max_wait_s.

    None where the wait is over it before they come.
    """
    if burst_wait_s(demand, capacity, judged_s) <= max_wait_s:
        return 0
    if reclaim_s >= judged_s or burst_wait_s(demand, capacity, reclaim_s) > max_wait_s:
        return None
    # The backlog is linear from reclaim_s on, so its wait is longest at an end; at the first it already holds.
    # (backlog without them − n · time they serve) / (capacity + n) <= max_wait_s, solved for n:
    backlog = (demand - capacity) * judged_s
    return round_up((backlog - max_wait_s * capacity) / (max_wait_s + judged_s - reclaim_s))


def plan_headroom(s: HeadroomScenario) -> HeadroomOutputs:
    """Headroom from load time, and the burst. Raises InputError where the series is too short or empty."""
    lag = lag_steps(s.load_time_s, s.detect_s, s.step_s)
    fraction = headroom_fraction(s.demand, lag, s.quantile)
    peak = max(s.demand)
    replicas = round_up(peak * (1 + fraction) / s.utilization_ceiling)
    judged_s = min(s.burst.duration_s, lag * s.step_s)
    demand = s.burst.factor * peak
    return HeadroomOutputs(
        lag_s=lag * s.step_s,
        headroom_fraction=fraction,
        target_utilization=target_utilization(s.utilization_ceiling, fraction),
        replicas=replicas,
        burst_wait_s=burst_wait_s(demand, replicas, judged_s),
        batch_replicas_needed=batch_replicas_needed(demand, replicas, judged_s, s.reclaim_s, s.max_wait_s),
    )


def finding(s: HeadroomScenario, o: HeadroomOutputs) -> str:
    if o.batch_replicas_needed is None:
        caught = f"nothing keeps it within {s.max_wait_s:g} s, as batch replicas come only after {s.reclaim_s:g} s"
    elif o.batch_replicas_needed == 0:
        caught = f"that is within {s.max_wait_s:g} s without help"
    else:
        taken = f"{o.batch_replicas_needed} batch replicas, taken within {s.reclaim_s:g} s,"
        caught = f"{taken} keep it to {s.max_wait_s:g} s"
    return (
        f"A load time of {s.load_time_s / 60:.1f} minutes is a headroom of {o.headroom_fraction:.1%}: {o.replicas} "
        f"replicas, run at {o.target_utilization:.0%}; a burst to {s.burst.factor:g} times the peak for "
        f"{s.burst.duration_s:g} s meets no new replica for {o.lag_s:g} s and waits up to {o.burst_wait_s:.1f} s: "
        f"{caught}."
    )


def picture(s: HeadroomScenario, o: HeadroomOutputs) -> Picture:
    loads = between(0, max(600.0, 2 * s.load_time_s), 31)
    return Picture(
        "load_time_s",
        "headroom_fraction",
        loads,
        {"headroom": sweep(plan_headroom, s, "load_time_s", loads, lambda out: out.headroom_fraction)},
    )


TOPIC = Topic(
    "How many replicas are kept free because new ones take minutes to load, and what absorbs a burst?",
    HeadroomScenario,
    plan_headroom,
    finding,
    picture,
)
