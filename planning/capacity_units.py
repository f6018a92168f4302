"""capacity-units: several GPU types in one fleet, each counted by what it serves within the SLO.

One unit is the reference type's goodput at the SLO. Requests split by GPU count give every type the same load, and so
fill the slowest first; split by units, all are equally busy. What to buy is an integer programme (as in Mélange, Griggs
et al., 2024).
"""

import math
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from configs.errors import InputError
from configs.schema import Frozen
from planning.lexicographic import AtLeast, minimize
from planning.quantities import Ceiling, Name, NonNegative, Outputs, Positive, Scenario, Whole
from planning.topic import Picture, Row, Topic


class GpuType(Frozen):
    """One replica of this type: requests/s it serves within the SLO, its price, and how many can be had."""

    name: Name
    goodput_requests_per_s: Positive
    usd_per_hour: NonNegative
    available: Whole


class CapacityUnitsScenario(Scenario):
    types: Annotated[tuple[GpuType, ...], Field(min_length=1)]
    reference: Name
    fleet: Annotated[dict[Name, Whole], Field(min_length=1)]
    requests_per_s: Positive
    utilization_ceiling: Ceiling

    @field_validator("types")
    @classmethod
    def _names_differ(cls, types: tuple[GpuType, ...]) -> tuple[GpuType, ...]:
        names = [kind.name for kind in types]
        if len(set(names)) < len(names):
            raise ValueError("two types have one name")
        return types

    @field_validator("reference")
    @classmethod
    def _known(cls, reference: str, info: ValidationInfo) -> str:
        if "types" in info.data and reference not in {kind.name for kind in info.data["types"]}:
            raise ValueError("no type of this name")
        return reference

    @field_validator("fleet")
    @classmethod
    def _of_known_types(cls, fleet: dict[str, int], info: ValidationInfo) -> dict[str, int]:
        unknown = set(fleet) - {kind.name for kind in info.data.get("types", ())}
        if "types" in info.data and unknown:
            raise ValueError(f"no type named {sorted(unknown)[0]}")
        if not any(fleet.values()):
            raise ValueError("no replica in it")
        return fleet


class CapacityUnitsOutputs(Outputs):
    units: Annotated[dict[str, float], Row("goodput / the reference's goodput", "units a replica")]
    fleet_units: Annotated[float, Row("Σ count · units", "units")]
    routing_weights: Annotated[dict[str, float], Row("units / fleet_units, of the types in the fleet", "a replica")]
    utilization_by_count: Annotated[dict[str, float], Row("requests_per_s / replicas / goodput")]
    utilization_by_units: Annotated[float, Row("requests_per_s / Σ count · goodput")]
    max_requests_per_s_by_count: Annotated[
        float, Row("utilization_ceiling · replicas · least goodput in the fleet", "requests/s")
    ]
    max_requests_per_s_by_units: Annotated[float, Row("utilization_ceiling · Σ count · goodput", "requests/s")]
    buy: Annotated[dict[str, int], Row("cheapest whole counts that serve requests_per_s, from nothing", "replicas")]
    buy_usd_per_hour: Annotated[float, Row("Σ buy · usd_per_hour", "USD/h")]


def routing_weights(goodput: dict[str, float], counts: dict[str, int]) -> dict[str, float]:
    """Each replica's share of the requests, by type in the fleet; Σ count · weight = 1."""
    total = math.fsum(count * goodput[name] for name, count in counts.items())
    return {name: goodput[name] / total for name, count in counts.items() if count}


def cheapest(types: tuple[GpuType, ...], needed_requests_per_s: float) -> dict[str, int] | None:
    """The cheapest counts within what is available whose goodput reaches the need; ties to fewer replicas.

    None where all of them together do not reach it.
    """
    tightened = 1.0
    while True:
        # Scaled so that HiGHS's absolute tolerance is a relative 1e-10 of the need.
        scale = 1e4 / needed_requests_per_s
        counts = minimize(
            objectives=[[kind.usd_per_hour for kind in types], [1.0] * len(types)],
            rows=[AtLeast([kind.goodput_requests_per_s * scale for kind in types], 1e4 * tightened)],
            lower=[0] * len(types),
            upper=[kind.available for kind in types],
            integral=[True] * len(types),
        )
        if counts is None:
            return None
        reached = math.fsum(n * kind.goodput_requests_per_s for n, kind in zip(counts, types, strict=True))
        if reached >= needed_requests_per_s * (1 - 1e-9):
            return {kind.name: int(n) for n, kind in zip(counts, types, strict=True)}
        tightened += 1e-9  # a solution that only the solver's tolerance lets pass


def plan_capacity_units(s: CapacityUnitsScenario) -> CapacityUnitsOutputs:
    """The fleet in units, and what to buy. Raises InputError where what is available does not serve the load."""
    goodput = {kind.name: kind.goodput_requests_per_s for kind in s.types}
    counts = {name: count for name, count in s.fleet.items() if count}
    replicas = sum(counts.values())
    total = math.fsum(count * goodput[name] for name, count in counts.items())
    buy = cheapest(s.types, s.requests_per_s / s.utilization_ceiling)
    if buy is None:
        problem = "more than all available replicas serve under the utilization ceiling"
        raise InputError("capacity-units", "requests_per_s", s.requests_per_s, problem)
    return CapacityUnitsOutputs(
        units={name: value / goodput[s.reference] for name, value in goodput.items()},
        fleet_units=total / goodput[s.reference],
        routing_weights=routing_weights(goodput, counts),
        utilization_by_count={name: s.requests_per_s / replicas / goodput[name] for name in counts},
        utilization_by_units=s.requests_per_s / total,
        max_requests_per_s_by_count=s.utilization_ceiling * replicas * min(goodput[name] for name in counts),
        max_requests_per_s_by_units=s.utilization_ceiling * total,
        buy=buy,
        buy_usd_per_hour=math.fsum(buy[kind.name] * kind.usd_per_hour for kind in s.types),
    )


def finding(s: CapacityUnitsScenario, o: CapacityUnitsOutputs) -> str:
    slow, busiest = max(o.utilization_by_count.items(), key=lambda item: item[1])
    verdict = "over" if busiest > s.utilization_ceiling else "within"
    bought = ", ".join(f"{n} {name}" for name, n in o.buy.items() if n)
    return (
        f"Split by GPU count, {s.requests_per_s:g} requests/s keep {slow} {busiest:.0%} busy, {verdict} the ceiling of "
        f"{s.utilization_ceiling:.0%}; split by units every type is {o.utilization_by_units:.0%} busy. By count the "
        f"fleet serves {o.max_requests_per_s_by_count:.1f} requests/s, by units {o.max_requests_per_s_by_units:.1f}; "
        f"bought anew, {bought} do it at {o.buy_usd_per_hour:.2f} USD an hour."
    )


def picture(s: CapacityUnitsScenario, o: CapacityUnitsOutputs) -> Picture:
    names = list(o.utilization_by_count)
    return Picture(
        "GPU type",
        "utilization",
        names,
        {
            "requests split by count": [o.utilization_by_count[name] for name in names],
            "split by units": [o.utilization_by_units] * len(names),
            "ceiling": [s.utilization_ceiling] * len(names),
        },
        bars=True,
    )


TOPIC = Topic(
    "What is one GPU type worth of another at the SLO, and which mix serves a load cheapest?",
    CapacityUnitsScenario,
    plan_capacity_units,
    finding,
    picture,
)
