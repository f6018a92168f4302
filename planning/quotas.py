"""quotas: what a request takes, in resource tokens.

A request takes compute and holds memory; it is charged for the larger share (dominant resource fairness, Ghodsi et al.,
NSDI 2011), in units of uncached prompt tokens. The decode rate is the profile's own and the KV its peak, on purpose: a
request's charge does not depend on who else is there.
"""

from typing import Annotated, Literal

from configs.errors import InputError
from planning.fleet import prefill_s
from planning.profile import Profile
from planning.quantities import Fraction, NonNegative, Outputs, Positive, Scenario
from planning.topic import Picture, Row, Topic, between, sweep


class QuotasScenario(Scenario):
    prompt_tokens: Positive
    cached_prompt_fraction: Fraction
    output_tokens: NonNegative
    profile: Profile


class QuotasOutputs(Outputs):
    compute_rt: Annotated[
        float,
        Row(
            "prompt_tokens · (1 − cached_prompt_fraction) + output_tokens · prefill / decode tokens/s",
            "resource tokens",
        ),
    ]
    residency_s: Annotated[float, Row("prefill s + output_tokens · inter_token_s", "s")]
    kv_fraction: Annotated[float, Row("(prompt_tokens + output_tokens) · kv_bytes_per_token / kv_capacity_bytes")]
    memory_fraction: Annotated[float, Row("(prompt_tokens + output_tokens) · kv_bytes_per_token / memory_bytes")]
    memory_rt: Annotated[float, Row("kv_fraction · residency_s · prefill_tokens_per_s", "resource tokens")]
    resource_tokens: Annotated[float, Row("the larger of compute_rt and memory_rt", "resource tokens")]
    dominant: Annotated[Literal["compute", "memory"], Row("which is the larger")]


def charge(
    prompt_tokens: float, cached_prompt_fraction: float, output_tokens: float, profile: Profile
) -> QuotasOutputs:
    """What one request is charged. Raises InputError if its KV is over kv_capacity_bytes."""
    compute_rt = prompt_tokens * (1 - cached_prompt_fraction)
    compute_rt += output_tokens * profile.prefill_tokens_per_s / profile.decode_tokens_per_s
    residency_s = prefill_s(prompt_tokens, cached_prompt_fraction, profile) + output_tokens * profile.inter_token_s
    kv_bytes = (prompt_tokens + output_tokens) * profile.kv_bytes_per_token
    kv_fraction = kv_bytes / profile.kv_capacity_bytes
    if kv_fraction > 1:
        problem = f"with {output_tokens:g} output tokens this takes {kv_fraction:.2f} of the KV memory of a replica"
        raise InputError("quotas", "prompt_tokens", prompt_tokens, problem)
    memory_rt = kv_fraction * residency_s * profile.prefill_tokens_per_s
    return QuotasOutputs(
        compute_rt=compute_rt,
        residency_s=residency_s,
        kv_fraction=kv_fraction,
        memory_fraction=kv_bytes / profile.memory_bytes,
        memory_rt=memory_rt,
        resource_tokens=max(compute_rt, memory_rt),
        dominant="memory" if memory_rt > compute_rt else "compute",
    )


def plan_quotas(s: QuotasScenario) -> QuotasOutputs:
    """What this request is charged. Raises InputError if it does not fit a replica."""
    return charge(s.prompt_tokens, s.cached_prompt_fraction, s.output_tokens, s.profile)


def finding(s: QuotasScenario, o: QuotasOutputs) -> str:
    cold = charge(s.prompt_tokens, 0, s.output_tokens, s.profile)
    return (
        f"{s.prompt_tokens:,.0f} prompt tokens and their reply take {o.memory_fraction:.0%} of a replica's memory and "
        f"cost {o.resource_tokens:,.0f} resource tokens, {o.dominant}'s, with {s.cached_prompt_fraction:.0%} of the "
        f"prompt cached; cold they cost {cold.resource_tokens:,.0f}, {cold.dominant}'s."
    )


def picture(s: QuotasScenario, o: QuotasOutputs) -> Picture:
    cached = between(0, 1, 21)
    return Picture(
        "cached_prompt_fraction",
        "resource tokens",
        cached,
        {
            "compute": sweep(plan_quotas, s, "cached_prompt_fraction", cached, lambda out: out.compute_rt),
            "memory": sweep(plan_quotas, s, "cached_prompt_fraction", cached, lambda out: out.memory_rt),
        },
    )


TOPIC = Topic(
    "What does a request take of a replica, compute or memory, and what is it charged?",
    QuotasScenario,
    plan_quotas,
    finding,
    picture,
)
