"""fleet: how many replicas a load needs, and what the tokens cost.

Replica-seconds add up: prefill of the uncached prompt, then decode at the rate that KV memory allows. Concurrency is
Little's law (J. D. C. Little, 1961).
"""

from typing import Annotated, Literal

from planning.profile import Profile
from planning.quantities import Ceiling, Fraction, Outputs, Positive, Scenario, round_up
from planning.topic import Picture, Row, Topic, between, sweep


class FleetScenario(Scenario):
    requests_per_s: Positive
    prompt_tokens: Positive
    cached_prompt_fraction: Fraction
    output_tokens: Positive
    utilization_ceiling: Ceiling
    profile: Profile


class FleetOutputs(Outputs):
    prefill_replica_s_per_s: Annotated[
        float, Row("requests_per_s · prompt_tokens · (1 − cached_prompt_fraction) / prefill_tokens_per_s", "replicas")
    ]
    decode_tokens_per_s_at_length: Annotated[
        float,
        Row(
            "min(decode_tokens_per_s, kv_capacity_bytes / ((prompt + output/2) · kv_bytes_per_token) / inter_token_s)",
            "tokens/s",
        ),
    ]
    decode_replica_s_per_s: Annotated[
        float, Row("requests_per_s · output_tokens / decode_tokens_per_s_at_length", "replicas")
    ]
    replicas: Annotated[int, Row("⌈(prefill + decode) / utilization_ceiling⌉", "replicas")]
    binding: Annotated[Literal["memory", "compute"], Row("memory where it holds decode below decode_tokens_per_s")]
    concurrency: Annotated[float, Row("requests_per_s · (prefill s + output_tokens · inter_token_s)", "requests")]
    usd_per_hour: Annotated[float, Row("replicas · gpus_per_replica · usd_per_gpu_hour", "USD/h")]
    usd_per_million_tokens: Annotated[
        float, Row("usd_per_hour / (3600 · requests_per_s · (prompt + output)) · 10⁶", "USD")
    ]
    prompt_share_of_bill: Annotated[float, Row("prefill / (prefill + decode)")]


def prefill_s(prompt_tokens: float, cached_prompt_fraction: float, profile: Profile) -> float:
    """Replica-seconds that one request's uncached prompt takes."""
    return prompt_tokens * (1 - cached_prompt_fraction) / profile.prefill_tokens_per_s


def decode_s(prompt_tokens: float, output_tokens: float, profile: Profile) -> float:
    """Replica-seconds that one request's reply takes: its share of a full batch."""
    return output_tokens / profile.decode_tokens_per_s_at(prompt_tokens, output_tokens)


def request_replica_s(
    prompt_tokens: float, cached_prompt_fraction: float, output_tokens: float, profile: Profile
) -> float:
    """Replica-seconds that one request takes, both phases."""
    return prefill_s(prompt_tokens, cached_prompt_fraction, profile) + decode_s(prompt_tokens, output_tokens, profile)


def replicas_for(busy_replicas: float, utilization_ceiling: float) -> int:
    """Whole replicas that keep `busy_replicas` of work at or under the ceiling."""
    return round_up(busy_replicas / utilization_ceiling)


def plan_fleet(s: FleetScenario) -> FleetOutputs:
    """The fleet for a load (formulas: each output's row)."""
    one_prefill_s = prefill_s(s.prompt_tokens, s.cached_prompt_fraction, s.profile)
    prefill = s.requests_per_s * one_prefill_s
    decode = s.requests_per_s * decode_s(s.prompt_tokens, s.output_tokens, s.profile)
    at_length = s.profile.decode_tokens_per_s_at(s.prompt_tokens, s.output_tokens)
    replicas = replicas_for(prefill + decode, s.utilization_ceiling)
    usd_per_hour = replicas * s.profile.usd_per_replica_hour
    tokens_per_hour = 3600 * s.requests_per_s * (s.prompt_tokens + s.output_tokens)
    return FleetOutputs(
        prefill_replica_s_per_s=prefill,
        decode_tokens_per_s_at_length=at_length,
        decode_replica_s_per_s=decode,
        replicas=replicas,
        binding="memory" if at_length < s.profile.decode_tokens_per_s else "compute",
        concurrency=s.requests_per_s * (one_prefill_s + s.output_tokens * s.profile.inter_token_s),
        usd_per_hour=usd_per_hour,
        usd_per_million_tokens=usd_per_hour / tokens_per_hour * 1e6,
        prompt_share_of_bill=prefill / (prefill + decode),
    )


def finding(s: FleetScenario, o: FleetOutputs) -> str:
    held = "KV memory" if o.binding == "memory" else "compute"
    return (
        f"{s.requests_per_s:g} requests/s need {o.replicas} replicas at {o.usd_per_hour:,.2f} USD an hour "
        f"({o.usd_per_million_tokens:.3f} USD a million tokens); the prompt is {o.prompt_share_of_bill:.0%} of the "
        f"bill, the reply {1 - o.prompt_share_of_bill:.0%}; {held} binds decode, at "
        f"{o.decode_tokens_per_s_at_length:,.0f} of {s.profile.decode_tokens_per_s:,.0f} tokens/s."
    )


def picture(s: FleetScenario, o: FleetOutputs) -> Picture:
    cached = between(0, 1, 21)
    return Picture(
        "cached_prompt_fraction",
        "replicas",
        cached,
        {"replicas": sweep(plan_fleet, s, "cached_prompt_fraction", cached, lambda out: out.replicas)},
    )


TOPIC = Topic(
    "How many replicas does a load need, and is it the prompt or the reply that is paid for?",
    FleetScenario,
    plan_fleet,
    finding,
    picture,
)
