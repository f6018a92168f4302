"""regions: the cheapest fleet that survives the loss of any one region, and where its spare stands.

Every region holds its own peak; whichever is lost, at whatever hour, the others within reach have its demand free.
Whole numbers by branch and bound: least cost, then the least expected failover distance, then the smaller counts as
listed.
"""

import math
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from configs.errors import InputError
from configs.schema import Frozen
from planning.lexicographic import AtLeast, minimize
from planning.quantities import Day, Fraction, Name, NonNegative, Outputs, Scenario, round_up
from planning.topic import Picture, Row, Topic


class Region(Frozen):
    """Demand: replicas an hour of the day, already divided by the utilization ceiling."""

    name: Name
    demand: Day
    loss_probability: Fraction
    usd_per_replica_hour: NonNegative

    @property
    def peak(self) -> float:
        return max(self.demand)

    @property
    def peak_hour(self) -> int:
        """The first hour of the peak."""
        return self.demand.index(self.peak)


class RegionsScenario(Scenario):
    regions: Annotated[tuple[Region, ...], Field(min_length=1)]
    rtt_ms: dict[Name, dict[Name, NonNegative]]
    max_failover_rtt_ms: NonNegative
    load_time_s: NonNegative

    @field_validator("regions")
    @classmethod
    def _names_differ(cls, regions: tuple[Region, ...]) -> tuple[Region, ...]:
        names = [region.name for region in regions]
        if len(set(names)) < len(names):
            raise ValueError("two regions have one name")
        return regions

    @field_validator("rtt_ms")
    @classmethod
    def _every_pair(cls, rtt_ms: dict[str, dict[str, float]], info: ValidationInfo) -> dict[str, dict[str, float]]:
        names = [region.name for region in info.data.get("regions", ())]
        for name in {*rtt_ms, *(other for row in rtt_ms.values() for other in row)}:
            if names and name not in names:
                raise ValueError(f"no region named {name}")
        for a in names:
            for b in names:
                if a != b and b not in rtt_ms.get(a, {}) and a not in rtt_ms.get(b, {}):
                    raise ValueError(f"no round trip between {a} and {b}")
        return rtt_ms

    def rtt(self, a: str, b: str) -> float:
        """Round trip (ms) from a to b; a pair given one way holds both ways."""
        return self.rtt_ms[a][b] if b in self.rtt_ms.get(a, {}) else self.rtt_ms[b][a]

    def reach(self, lost: str) -> list[str]:
        """The regions that may take over from a lost one, as listed."""
        others = [region.name for region in self.regions if region.name != lost]
        return [name for name in others if self.rtt(lost, name) <= self.max_failover_rtt_ms]


class RegionsOutputs(Outputs):
    replicas: Annotated[dict[str, int], Row("least cost with any one region lost, at any hour", "replicas")]
    spare: Annotated[dict[str, float], Row("replicas − the region's own peak", "replicas")]
    total: Annotated[int, Row("Σ replicas", "replicas")]
    cost_usd_per_hour: Annotated[float, Row("Σ replicas · usd_per_replica_hour", "USD/h")]
    wait_without_spare_s: Annotated[float, Row("load_time_s: what callers of a lost region would wait", "s")]


def needed_within_reach(s: RegionsScenario, lost: Region) -> int:
    """Whole replicas that the regions within reach of `lost` need, together, at the worst hour of its loss."""
    reach = [region for region in s.regions if region.name in s.reach(lost.name)]
    return max(
        round_up(demand + math.fsum(region.demand[hour] for region in reach)) for hour, demand in enumerate(lost.demand)
    )


def plan_regions(s: RegionsScenario) -> RegionsOutputs:
    """Replicas a region. Raises InputError for a region with demand that nobody within reach can take over."""
    for lost in s.regions:
        if lost.peak > 0 and not s.reach(lost.name):
            problem = f"no region is within {s.max_failover_rtt_ms:g} ms of {lost.name} to take it over"
            raise InputError("regions", "max_failover_rtt_ms", s.max_failover_rtt_ms, problem)
    replicas = _solve(s)
    return RegionsOutputs(
        replicas=replicas,
        spare={region.name: replicas[region.name] - region.peak for region in s.regions},
        total=sum(replicas.values()),
        cost_usd_per_hour=math.fsum(replicas[region.name] * region.usd_per_replica_hour for region in s.regions),
        wait_without_spare_s=s.load_time_s,
    )


def _solve(s: RegionsScenario) -> dict[str, int]:
    """Variables: each region's replicas, then a flow for each lost region and each region within its reach."""
    names = [region.name for region in s.regions]
    flows = [(lost, other) for lost in s.regions for other in s.reach(lost.name)]
    size = len(names) + len(flows)

    def row(weights: dict[int, float]) -> list[float]:
        return [weights.get(i, 0.0) for i in range(size)]

    rows = []
    for lost in s.regions:
        if s.reach(lost.name):
            bound = needed_within_reach(s, lost)
            rows.append(AtLeast(row({names.index(name): 1.0 for name in s.reach(lost.name)}), bound))
            mine = {len(names) + i: 1.0 for i, (other, _) in enumerate(flows) if other is lost}
            rows.append(AtLeast(row(mine), lost.peak))
    for i, (lost, other) in enumerate(flows):
        taken = s.regions[names.index(other)].demand[lost.peak_hour]
        rows.append(AtLeast(row({names.index(other): 1.0, len(names) + i: -1.0}), taken))

    cost = row({i: region.usd_per_replica_hour for i, region in enumerate(s.regions)})
    distance = row(
        {len(names) + i: lost.loss_probability * s.rtt(lost.name, other) for i, (lost, other) in enumerate(flows)}
    )
    x = minimize(
        objectives=[cost, distance, *(row({i: 1.0}) for i in range(len(names)))],
        rows=rows,
        lower=[round_up(region.peak) for region in s.regions] + [0.0] * len(flows),
        upper=[math.inf] * size,
        integral=[True] * len(names) + [False] * len(flows),
    )
    assert x is not None  # enough replicas within reach always do
    return {name: int(x[i]) for i, name in enumerate(names)}


def finding(s: RegionsScenario, o: RegionsOutputs) -> str:
    peaks = sum(round_up(region.peak) for region in s.regions)
    spare = ", ".join(f"{n:g} in {name}" for name, n in o.spare.items() if n >= 1) or "nowhere"
    return (
        f"{o.total} replicas ({o.cost_usd_per_hour:,.2f} USD an hour) survive any one region's loss: {o.total - peaks} "
        f"over the peaks' {peaks}, where doubling every region takes {2 * peaks}; the spare stands {spare}. Without it "
        f"a lost region's callers wait {o.wait_without_spare_s:g} s for replicas to load."
    )


def picture(s: RegionsScenario, o: RegionsOutputs) -> Picture:
    return Picture(
        "region",
        "replicas",
        [region.name for region in s.regions],
        {"own peak": [region.peak for region in s.regions], "spare": list(o.spare.values())},
        bars=True,
    )


TOPIC = Topic(
    "What is the smallest fleet that survives the loss of any one region, and where does its spare stand?",
    RegionsScenario,
    plan_regions,
    finding,
    picture,
)
