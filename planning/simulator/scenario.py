"""What a simulation is asked: a fleet, what its callers send, what goes wrong, and the rules to compare (its arms)."""

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, model_validator

from configs.schema import Frozen, parse, read_yaml
from planning.policies.harvest import HarvestConfig
from planning.policies.quota import Limit
from planning.policies.route import RouteConfig
from planning.policies.scale import ScaleConfig
from planning.profile import Profile
from planning.quantities import Count, Name, NonNegative, Positive, Whole
from planning.simulator.rates import Rates
from planning.simulator.workload import Batch, Stream
from planning.topics import put

Points = tuple[tuple[Positive, Positive], ...]


class Kind(Frozen):
    """Replicas of one GPU type. The engine's settings are vLLM's of the same meaning.

    prefill_points: [[prompt tokens, seconds], …] of a prompt alone, measured, where one rate is not enough: given here,
    or in the profile; without them prefill_tokens_per_s holds for all lengths. Without itl_base_ms the profile's
    inter_token_ms is the base.
    """

    profile: Profile
    replicas: Count
    max_sequences: Count = 256
    token_budget: Count = 8192
    block_tokens: Count = 16
    adapter_slots: Count = 8
    adapter_load_s: NonNegative = 0.0
    prefill_points: Points = ()

    @model_validator(mode="after")
    def _check(self) -> "Kind":
        if self.token_budget <= self.max_sequences:
            raise ValueError(
                f"token_budget = {self.token_budget} leaves no room for prompts beside {self.max_sequences} sequences"
            )
        if any(b[0] <= a[0] or b[1] < a[1] for a, b in pairwise(self.curve)):
            raise ValueError("prefill_points have to rise")
        return self

    @property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """(prompt tokens, seconds) from (0, 0) on. Raises ValueError for points in the profile that are none."""
        measured = (self.profile.model_extra or {}).get("prefill_points", ())
        points = self.prefill_points or TypeAdapter(Points).validate_python(measured)
        return ((0.0, 0.0), *(points or ((self.profile.prefill_tokens_per_s, 1.0),)))

    @property
    def rates(self) -> Rates:
        profile = self.profile
        base_ms = profile.inter_token_ms if profile.itl_base_ms is None else profile.itl_base_ms
        return Rates(
            prefill_curve=self.curve,
            itl_base_s=base_ms / 1000,
            itl_per_sequence_s=(profile.itl_per_sequence_ms or 0.0) / 1000,
            kv_capacity_tokens=int(profile.kv_capacity_bytes / profile.kv_bytes_per_token),
            decode_tokens_per_s=profile.decode_tokens_per_s,
            load_time_s=profile.load_time_s,
            usd_per_hour=profile.usd_per_replica_hour,
        )


class Objective(Frozen):
    """A request is good if its TTFT and its mean time between tokens are within these."""

    ttft_ms: Positive | None = None
    inter_token_ms: Positive | None = None


class Failure(Frozen):
    """So many replicas die at `at_s`; with `replace`, as many are started at once and load."""

    at_s: NonNegative
    replicas: Count = 1
    replace: bool = True


class Outage(Frozen):
    """No metrics reach scaling and harvest from `at_s` for `duration_s`."""

    at_s: NonNegative
    duration_s: Positive


class Route(Frozen):
    """A routing rule; `spill` is ours, the others are planning/simulator/peers.py's.

    With max_wait_ms, `spill` refuses a caller who would wait longer in front of its replica's engine.
    """

    rule: Literal[
        "spill",
        "round-robin",
        "least-ongoing",
        "power-of-two",
        "ray-prefix-affinity",
        "llm-d-affinity",
        "count-weighted",
    ] = "spill"
    spill: RouteConfig = RouteConfig()
    max_wait_ms: NonNegative | None = None
    max_ttft_penalty_ms: NonNegative = 18_000.0  # llm-d's


class Gateway(Frozen):
    """In front of the fleet: a queue where more than max_ongoing requests a replica are in flight, and quotas.

    `order` is the queue's: by arrival, or by class and then the tenant served least (planning.policies.fair).
    """

    max_ongoing: Positive | None = None
    order: Literal["arrival", "fair"] = "arrival"
    quotas: dict[Name, Limit] = Field(default_factory=dict)


class Scale(Frozen):
    """A scaling rule, asked every `interval_s`; `headroom` is ours. The first kind of the fleet is what is scaled."""

    rule: Literal["fixed", "headroom", "ray-serve", "gpu-utilisation", "llm-d-saturation"] = "fixed"
    interval_s: Positive = 5.0
    min_replicas: Count = 1
    max_replicas: Count = 1000
    headroom: ScaleConfig | None = None
    target_ongoing_requests: Positive = 2.0  # Ray Serve's
    target_utilisation: Positive = 0.8  # the autoscaler's on GPU utilisation

    @property
    def moves(self) -> bool:
        """Whether the number of replicas ever changes by this rule."""
        return self.rule != "fixed"

    @model_validator(mode="after")
    def _check(self) -> "Scale":
        if (self.rule == "headroom") != (self.headroom is not None):
            raise ValueError("headroom's own settings belong to rule: headroom, and it needs them")
        return self


class Soak(Frozen):
    """How batch rows are let in: a fixed `concurrency`, or AIMD's; at what priority beside the callers'.

    With rows_per_replica rows run on as few replicas as hold them, so many on each, not wherever the rule says.
    AIMD is asked every interval_s, and told the callers' p95 over their last `window` first tokens: fewer are noise.
    """

    concurrency: Positive | None = None
    aimd: HarvestConfig | None = None
    priority: int = 10
    interval_s: Positive = 2.0
    window: Count = 400
    rows_per_replica: Positive | None = None

    @model_validator(mode="after")
    def _check(self) -> "Soak":
        if (self.concurrency is None) == (self.aimd is None):
            raise ValueError("give either a fixed concurrency or aimd")
        return self


class Arm(Frozen):
    """One set of rules; the tenants in `without` send nothing, to compare with."""

    name: Name
    route: Route = Route()
    gateway: Gateway = Gateway()
    scale: Scale = Scale()
    soak: Soak | None = None
    without: tuple[Name, ...] = ()


class Scenario(Frozen):
    """A simulation. Requests that arrive before `warmup_s` run but are not counted; `drain_s` ends a hopeless run."""

    title: str
    seed: Whole = 1
    duration_s: Positive
    warmup_s: NonNegative = 0.0
    drain_s: Positive = 3600.0
    fleet: Annotated[dict[Name, Kind], Field(min_length=1)]
    streams: Annotated[list[Stream], Field(min_length=1)]
    objective: Objective = Objective()
    batch: Batch | None = None
    failures: tuple[Failure, ...] = ()
    outages: tuple[Outage, ...] = ()
    arms: Annotated[list[Arm], Field(min_length=1)]

    @model_validator(mode="after")
    def _check(self) -> "Scenario":
        if self.warmup_s >= self.duration_s:
            raise ValueError(f"warmup_s = {self.warmup_s:g} leaves nothing of duration_s = {self.duration_s:g}")
        names = [arm.name for arm in self.arms]
        if len(set(names)) < len(names):
            raise ValueError("two arms have one name")
        tenants = {stream.tenant for stream in self.streams}
        for arm in self.arms:
            unknown = {*arm.gateway.quotas, *arm.without} - tenants
            if unknown:
                raise ValueError(f"arm {arm.name}: {min(unknown)} is no tenant of any stream")
            if arm.soak and not self.batch:
                raise ValueError(f"arm {arm.name}: soak without a batch")
            if arm.soak and arm.soak.rows_per_replica and arm.route.rule != "spill":
                raise ValueError(f"arm {arm.name}: rows_per_replica needs route's rule spill")
            if set(arm.without) == tenants and not arm.soak:
                raise ValueError(f"arm {arm.name}: without all tenants and without batch there is nothing to do")
        return self


def read_scenario(path: Path, overrides: Iterable[tuple[str, Any]] = ()) -> Scenario:
    """The scenario in a file, dotted keys overridden in order. Raises InputError.

    A kind's profile may be the path of a file, looked up from the scenario's folder first.
    """
    data = read_yaml(path)
    for key, value in overrides:
        put(data, key, value)
    kinds = data.get("fleet")
    for kind in kinds.values() if isinstance(kinds, dict) else ():
        if isinstance(kind, dict) and isinstance(kind.get("profile"), str):
            beside = path.parent / kind["profile"]
            kind["profile"] = read_yaml(beside if beside.exists() else Path(kind["profile"]))
    return parse(Scenario, data, str(path))
