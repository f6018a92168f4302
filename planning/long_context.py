"""long-context: the first token of a long prompt, cold and warm, and the two pools that serve it.

A prompt of x tokens takes 2·parameters·x operations in matrix products and 2·layers·width·x² in attention (causal: half
of 4·layers·width·x²; Kaplan et al., 2020, and the PaLM paper's appendix B, 2022), at a share `mfu` of the GPUs' peak.
"""

from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from planning.fleet import replicas_for
from planning.profile import Profile
from planning.quantities import Ceiling, Count, Fraction, NonNegative, Outputs, Positive, Scenario
from planning.topic import Picture, Row, Topic, between


class LongContextScenario(Scenario):
    parameters: Positive
    layers: Count
    attention_width: Count
    prompt_tokens: Positive
    warm_fraction: Fraction
    suffix_tokens: NonNegative
    gemm_flops_per_gpu: Positive
    attention_flops_per_gpu: Positive
    gpus: Annotated[Count, Field(description="of one prefill replica")]
    mfu: Ceiling
    requests_per_s: NonNegative
    output_tokens: Positive
    utilization_ceiling: Ceiling
    network_bytes_per_s: Positive
    profile: Annotated[Profile, Field(description="of one decode replica")]

    @field_validator("suffix_tokens")
    @classmethod
    def _inside_the_prompt(cls, suffix_tokens: float, info: ValidationInfo) -> float:
        if suffix_tokens > info.data.get("prompt_tokens", suffix_tokens):
            raise ValueError(f"more than prompt_tokens = {info.data['prompt_tokens']:g}")
        return suffix_tokens


class LongContextOutputs(Outputs):
    cold_prefill_s: Annotated[
        float,
        Row("(2·parameters·prompt / gemm_flops + 2·layers·width·prompt² / attention_flops) / (gpus · mfu)", "s"),
    ]
    warm_prefill_s: Annotated[float, Row("cold_prefill_s − the same of prompt − suffix", "s")]
    prefill_replicas: Annotated[
        int,
        Row("⌈requests_per_s · (warm_fraction · warm + (1 − warm_fraction) · cold) / utilization_ceiling⌉", "replicas"),
    ]
    decode_replicas: Annotated[
        int,
        Row(
            "larger of ⌈requests_per_s · output / decode_tokens_per_s / ceiling⌉ and "
            "⌈requests_per_s · output · inter_token_s · (prompt + output/2) · kv bytes / (kv_capacity · ceiling)⌉",
            "replicas",
        ),
    ]
    kv_transfer_s: Annotated[float, Row("prompt_tokens · kv_bytes_per_token / network_bytes_per_s", "s")]


def time_s(tokens: float, s: LongContextScenario) -> float:
    """Seconds to prefill `tokens` from nothing on one prefill replica."""
    gemm_s = 2 * s.parameters * tokens / s.gemm_flops_per_gpu
    attention_s = 2 * s.layers * s.attention_width * tokens**2 / s.attention_flops_per_gpu
    return (gemm_s + attention_s) / (s.gpus * s.mfu)


def plan_long_context(s: LongContextScenario) -> LongContextOutputs:
    """Prefill times and the size of both pools."""
    cold_s = time_s(s.prompt_tokens, s)
    warm_s = cold_s - time_s(s.prompt_tokens - s.suffix_tokens, s)
    prefill_busy = s.requests_per_s * (s.warm_fraction * warm_s + (1 - s.warm_fraction) * cold_s)
    decode_busy = s.requests_per_s * s.output_tokens / s.profile.decode_tokens_per_s
    sequences = s.requests_per_s * s.output_tokens * s.profile.inter_token_s
    sequence_bytes = (s.prompt_tokens + s.output_tokens / 2) * s.profile.kv_bytes_per_token
    full = sequences * sequence_bytes / s.profile.kv_capacity_bytes
    return LongContextOutputs(
        cold_prefill_s=cold_s,
        warm_prefill_s=warm_s,
        prefill_replicas=replicas_for(prefill_busy, s.utilization_ceiling),
        decode_replicas=max(
            replicas_for(decode_busy, s.utilization_ceiling), replicas_for(full, s.utilization_ceiling)
        ),
        kv_transfer_s=s.prompt_tokens * s.profile.kv_bytes_per_token / s.network_bytes_per_s,
    )


def finding(s: LongContextScenario, o: LongContextOutputs) -> str:
    fits = "inside" if o.cold_prefill_s <= 1 else "over"
    return (
        f"A cold prompt of {s.prompt_tokens:,.0f} tokens prefills in {o.cold_prefill_s:.2f} s on {s.gpus} GPUs, {fits} "
        f"a second; warm, its last {s.suffix_tokens:,.0f} tokens take {o.warm_prefill_s * 1000:.0f} ms. With "
        f"{s.warm_fraction:.0%} warm, {s.requests_per_s:g} requests/s take {o.prefill_replicas} prefill replicas of "
        f"{s.gpus} GPUs and {o.decode_replicas} decode replicas of {s.profile.gpus_per_replica}; handing over the KV "
        f"adds {o.kv_transfer_s * 1000:.0f} ms."
    )


def picture(s: LongContextScenario, o: LongContextOutputs) -> Picture:
    lengths = between(0, 2 * s.prompt_tokens, 33)
    return Picture(
        "prompt_tokens", "cold prefill (s)", lengths, {f"{s.gpus} GPUs": [time_s(tokens, s) for tokens in lengths]}
    )


TOPIC = Topic(
    "How long does a long prompt take to its first token, cold and warm, and what pools serve it?",
    LongContextScenario,
    plan_long_context,
    finding,
    picture,
)
