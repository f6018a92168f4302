"""tiers: many models, few of them busy: those keep GPUs of their own, the tail shares, the rare are loaded on demand.

Sharing is bin packing by first fit decreasing (Johnson, 1973), on weights and on busy time. One GPU a replica.
"""

import math
from typing import Annotated, Literal

from pydantic import Field, field_validator

from configs.errors import InputError
from configs.schema import Frozen
from planning.quantities import (
    Ceiling,
    Count,
    Name,
    NonNegative,
    Outputs,
    Positive,
    Scenario,
    round_up,
)
from planning.topic import Picture, Row, Topic

Tier = Literal["dedicated", "shared", "cold"]


class Model(Frozen):
    """One model as it is served today, on `replicas` GPUs."""

    name: Name
    requests_per_s: NonNegative
    request_replica_s: Positive
    weights_bytes: Positive
    replicas: Count

    @property
    def busy(self) -> float:
        """Replicas' worth of work."""
        return self.requests_per_s * self.request_replica_s


class TiersScenario(Scenario):
    models: Annotated[tuple[Model, ...], Field(min_length=1)]
    gpu_bytes: Positive
    kv_reserve_fraction: Annotated[float, Field(ge=0, lt=1)]
    utilization_ceiling: Ceiling
    shared_ceiling: Ceiling
    dedicated_busy: NonNegative
    cold_requests_per_s: NonNegative
    shared_copies: Count
    cold_gpus: Count
    load_bytes_per_s: Positive

    @field_validator("models")
    @classmethod
    def _names_differ(cls, models: tuple[Model, ...]) -> tuple[Model, ...]:
        names = [model.name for model in models]
        if len(set(names)) < len(names):
            raise ValueError("two models have one name")
        return models


class Assignment(Frozen):
    """Where a model stands: its own GPUs, its bin's copies (bin: which, from 0), or the cold pool."""

    tier: Tier
    gpus: int
    bin: int | None


class TiersOutputs(Outputs):
    idle_before: Annotated[float, Row("1 − Σ busy / Σ replicas")]
    assignments: Annotated[
        dict[str, Assignment],
        Row("dedicated from dedicated_busy, cold under cold_requests_per_s, the rest first fit decreasing by weights"),
    ]
    gpus_before: Annotated[int, Row("Σ replicas", "GPUs")]
    gpus_after: Annotated[int, Row("Σ dedicated + bins · shared_copies + cold_gpus", "GPUs")]
    idle_after: Annotated[float, Row("1 − Σ busy / gpus_after")]
    cold_wait_s: Annotated[float, Row("largest cold weights_bytes / load_bytes_per_s", "s")]


def tier_of(model: Model, s: TiersScenario) -> Tier:
    """Busy models are dedicated, rare ones cold, the rest share."""
    if model.busy >= s.dedicated_busy:
        return "dedicated"
    return "cold" if model.requests_per_s < s.cold_requests_per_s else "shared"


def dedicated_gpus(busy: float, utilization_ceiling: float) -> int:
    """At least two, so that one may fail."""
    return max(2, round_up(busy / utilization_ceiling))


def pack(models: list[Model], s: TiersScenario) -> dict[str, int]:
    """Each model's bin: the first, largest weights first, that has both the bytes and the time.

    Raises InputError for a model that no bin holds.
    """
    bytes_each = s.gpu_bytes * (1 - s.kv_reserve_fraction) * (1 + 1e-9)
    busy_each = s.shared_ceiling * s.shared_copies + 1e-9
    bins: list[list[Model]] = []
    placed = {}

    def fits(together: list[Model]) -> bool:
        weights = math.fsum(one.weights_bytes for one in together)
        return weights <= bytes_each and math.fsum(one.busy for one in together) <= busy_each

    for model in sorted(models, key=lambda one: (-one.weights_bytes, one.name)):
        if model.weights_bytes > bytes_each:
            problem = f"over the {bytes_each:g} bytes of a shared GPU less its KV reserve"
            raise InputError("tiers", f"{model.name}.weights_bytes", model.weights_bytes, problem)
        if model.busy > busy_each:
            problem = f"{model.busy:g} busy replicas are over what {s.shared_copies} shared copies take"
            raise InputError("tiers", f"{model.name}.requests_per_s", model.requests_per_s, problem)
        index = next((i for i, held in enumerate(bins) if fits([*held, model])), len(bins))
        if index == len(bins):
            bins.append([])
        bins[index].append(model)
        placed[model.name] = index
    return placed


def plan_tiers(s: TiersScenario) -> TiersOutputs:
    """Each model's tier. Raises InputError for weights that a GPU, or a shared one, does not hold."""
    for model in s.models:
        if model.weights_bytes > s.gpu_bytes:
            raise InputError("tiers", f"{model.name}.weights_bytes", model.weights_bytes, "over gpu_bytes")
    placed = pack([model for model in s.models if tier_of(model, s) == "shared"], s)
    assignments = {}
    for model in s.models:
        tier = tier_of(model, s)
        gpus = {
            "dedicated": dedicated_gpus(model.busy, s.utilization_ceiling),
            "shared": s.shared_copies,
            "cold": s.cold_gpus,
        }[tier]
        assignments[model.name] = Assignment(tier=tier, gpus=gpus, bin=placed.get(model.name))

    cold = [model for model in s.models if assignments[model.name].tier == "cold"]
    dedicated = sum(one.gpus for one in assignments.values() if one.tier == "dedicated")
    bins = len(set(placed.values()))
    gpus_after = dedicated + bins * s.shared_copies + (s.cold_gpus if cold else 0)
    gpus_before = sum(model.replicas for model in s.models)
    busy = math.fsum(model.busy for model in s.models)
    return TiersOutputs(
        idle_before=1 - busy / gpus_before,
        assignments=assignments,
        gpus_before=gpus_before,
        gpus_after=gpus_after,
        idle_after=1 - busy / gpus_after,
        cold_wait_s=max((model.weights_bytes for model in cold), default=0.0) / s.load_bytes_per_s,
    )


def finding(s: TiersScenario, o: TiersOutputs) -> str:
    tiers = [one.tier for one in o.assignments.values()]
    own = [model.busy / o.assignments[model.name].gpus for model in s.models if tier_of(model, s) == "dedicated"]
    at_most = f" (at most {max(own):.0%} busy)" if own else ""
    return (
        f"{len(s.models)} models on {o.gpus_before} GPUs are {o.idle_before:.0%} idle; {tiers.count('dedicated')} keep "
        f"GPUs of their own{at_most}, {tiers.count('shared')} share, {tiers.count('cold')} load on demand in up to "
        f"{o.cold_wait_s:.0f} s: {o.gpus_after} GPUs, {o.idle_after:.0%} idle."
    )


def picture(s: TiersScenario, o: TiersOutputs) -> Picture:
    ranked = sorted(s.models, key=lambda model: (-model.busy, model.name))
    series = {
        tier: [model.busy if o.assignments[model.name].tier == tier else None for model in ranked]
        for tier in ("dedicated", "shared", "cold")
    }
    return Picture("model", "busy replicas", [model.name for model in ranked], series, bars=True)


TOPIC = Topic(
    "Which of many models keep GPUs of their own, which share, and which are loaded on demand?",
    TiersScenario,
    plan_tiers,
    finding,
    picture,
)
