"""soak: what batch work gets done on the replicas that a day leaves idle, and what limits it.

A decode step reads the weights and every sequence's KV, or is held up by arithmetic (the roofline of Williams et al.,
2009); sequences are half grown on average. All rates and bytes are one replica's.
"""

from typing import Annotated, Literal

from pydantic import Field

from configs.errors import InputError
from configs.schema import Frozen
from planning.profile import Profile
from planning.quantities import Ceiling, Day, Fraction, Outputs, Positive, Scenario, round_down, round_up
from planning.topic import Picture, Row, Topic

KV_SHARE = 0.9
"""The share of KV memory that a batch may fill: sequences end at different lengths."""


class Batch(Frozen):
    """The batch's average row."""

    prompt_tokens: Positive
    output_tokens: Positive


class SoakScenario(Scenario):
    demand: Annotated[Day, Field(description="busy replicas an hour")]
    utilization_ceiling: Ceiling
    batch: Batch
    weights_bytes: Positive
    memory_bytes_per_s: Positive
    flops_per_token: Positive
    effective_flops_per_s: Positive
    harvest_efficiency: Fraction
    profile: Profile


class SoakOutputs(Outputs):
    fleet: Annotated[int, Row("⌈max(demand) / utilization_ceiling⌉", "replicas")]
    idle_fraction: Annotated[float, Row("1 − Σ demand / (24 · fleet)")]
    idle_replica_hours: Annotated[float, Row("Σ (fleet − demand / utilization_ceiling)", "replica-hours a day")]
    harvestable_fraction: Annotated[float, Row("idle_replica_hours / (24 · fleet)")]
    batch_concurrency: Annotated[
        int, Row("⌊0.9 · kv_capacity_bytes / ((prompt + output) · kv_bytes_per_token)⌋", "sequences")
    ]
    step_s: Annotated[
        float,
        Row(
            "larger of (weights + concurrency · (prompt + output/2) · kv bytes) / memory_bytes_per_s and "
            "concurrency · flops_per_token / effective_flops_per_s",
            "s",
        ),
    ]
    decode_tokens_per_s: Annotated[float, Row("batch_concurrency / step_s", "tokens/s")]
    requests_per_replica_s: Annotated[
        float, Row("1 / (prompt / prefill_tokens_per_s + output / decode_tokens_per_s)", "requests/s")
    ]
    requests_per_day: Annotated[
        float, Row("idle_replica_hours · 3600 · requests_per_replica_s · harvest_efficiency", "requests")
    ]
    prefill_share: Annotated[float, Row("prompt / prefill_tokens_per_s · requests_per_replica_s")]
    limit: Annotated[
        Literal["prefill", "compute", "memory", "bandwidth"],
        Row("prefill over half the time; else the larger term of step_s: memory where weights outweigh the KV read"),
    ]


def batch_concurrency(prompt_tokens: float, output_tokens: float, profile: Profile, topic: str = "soak") -> int:
    """Sequences that a batch keeps in KV memory. Raises InputError where not even one fits."""
    one = (prompt_tokens + output_tokens) * profile.kv_bytes_per_token
    concurrency = round_down(KV_SHARE * profile.kv_capacity_bytes / one)
    if concurrency < 1:
        problem = f"a sequence of {one:g} bytes of KV does not fit {KV_SHARE:.0%} of kv_capacity_bytes"
        raise InputError(topic, "prompt_tokens", prompt_tokens, problem)
    return concurrency


def read_bytes(concurrency: int, prompt_tokens: float, output_tokens: float, profile: Profile) -> float:
    """KV bytes that one decode step reads, the sequences half grown."""
    return concurrency * (prompt_tokens + output_tokens / 2) * profile.kv_bytes_per_token


def plan_soak(s: SoakScenario) -> SoakOutputs:
    """A day's idle time and the batch work it holds. Raises InputError where no row fits KV memory."""
    peak = max(s.demand)
    if peak <= 0:
        raise InputError("soak", "demand", list(s.demand), "no hour has any demand")
    fleet = round_up(peak / s.utilization_ceiling)
    idle_replica_hours = sum(fleet - demand / s.utilization_ceiling for demand in s.demand)

    prompt, output = s.batch.prompt_tokens, s.batch.output_tokens
    concurrency = batch_concurrency(prompt, output, s.profile)
    kv_bytes = read_bytes(concurrency, prompt, output, s.profile)
    reading_s = (s.weights_bytes + kv_bytes) / s.memory_bytes_per_s
    computing_s = concurrency * s.flops_per_token / s.effective_flops_per_s
    step_s = max(reading_s, computing_s)
    prefill_s = prompt / s.profile.prefill_tokens_per_s
    request_s = prefill_s + output * step_s / concurrency
    limit: Literal["prefill", "compute", "memory", "bandwidth"]
    if prefill_s / request_s > 0.5:
        limit = "prefill"
    elif computing_s > reading_s:
        limit = "compute"
    else:
        # Where reading the weights dominates a step, a larger batch, so more KV memory, would help.
        limit = "memory" if s.weights_bytes > kv_bytes else "bandwidth"
    return SoakOutputs(
        fleet=fleet,
        idle_fraction=1 - sum(s.demand) / (24 * fleet),
        idle_replica_hours=idle_replica_hours,
        harvestable_fraction=idle_replica_hours / (24 * fleet),
        batch_concurrency=concurrency,
        step_s=step_s,
        decode_tokens_per_s=concurrency / step_s,
        requests_per_replica_s=1 / request_s,
        requests_per_day=idle_replica_hours * 3600 / request_s * s.harvest_efficiency,
        prefill_share=prefill_s / request_s,
        limit=limit,
    )


LIMITS = {
    "prefill": "prefill limits the batch",
    "compute": "compute, not memory, limits the batch",
    "memory": "KV memory, not compute, limits the batch: a step reads more weights than KV, so a larger one would help",
    "bandwidth": "memory bandwidth limits the batch: a step reads more KV than weights",
}


def finding(s: SoakScenario, o: SoakOutputs) -> str:
    return (
        f"A fleet of {o.fleet}, sized for its peak, is {o.idle_fraction:.0%} idle over a day; "
        f"{o.idle_replica_hours:.0f} replica-hours of it hold {o.requests_per_day:,.0f} batch requests. "
        f"{o.batch_concurrency} at a time, {o.prefill_share:.0%} of their time prefill, {LIMITS[o.limit]}."
    )


def picture(s: SoakScenario, o: SoakOutputs) -> Picture:
    return Picture(
        "hour",
        "replicas",
        [float(hour) for hour in range(24)],
        {
            "callers, at the ceiling": [demand / s.utilization_ceiling for demand in s.demand],
            "fleet": [float(o.fleet)] * 24,
        },
    )


TOPIC = Topic(
    "How much of a day does a fleet sized for its peak stand idle, and what batch work fits there?",
    SoakScenario,
    plan_soak,
    finding,
    picture,
)
