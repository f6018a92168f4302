"""The profile: what was measured as the one JSON document that a plan's or a simulation's `profile` names."""

from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from telemetry.profiler import decode, prefill
from telemetry.profiler.bandwidth import Bandwidths
from telemetry.profiler.ceiling import Ceiling, share
from telemetry.profiler.hardware import Hardware
from telemetry.profiler.rounds import Limits, Measured
from telemetry.profiler.spread import Spread

SPREAD_MAX = 0.25
"""An interquartile range over the median above this: somebody else used the target or the machine."""
SHORT_TOKENS = 64
"""Shorter prompts' first tokens are mostly the way there and back: their spread says nothing of the engine."""


@dataclass(frozen=True)
class Subject:
    """What was measured, and how."""

    model: str
    hardware: Hardware
    gpus_per_replica: int
    usd_per_gpu_hour: float
    over: str
    slo_ms: float
    limits: Limits
    block_tokens: int
    load_time_s: float
    load_time_from: str
    load_parts: dict[str, float]
    kv_capacity_tokens: int
    kv_capacity_from: str


def document(subject: Subject, measured: Measured, ceiling: Ceiling, bandwidths: Bandwidths) -> dict[str, Any]:
    """The keys that plans read, and beside them what they rest on. Seconds and bytes, ms where the name says so."""
    kv_bytes = ceiling.checkpoint.kv_bytes_per_token
    overhead = measured.overhead_s
    inter_token = measured.inter_token[measured.decode_batch].median
    points = prefill.prefill_points({n: s.median for n, s in measured.ttft.items()}, overhead)
    return {
        "model": subject.model,
        "gpu": subject.hardware.name,
        "gpus_per_replica": subject.gpus_per_replica,
        "usd_per_gpu_hour": subject.usd_per_gpu_hour,
        "prefill_tokens_per_s": measured.prefill_tokens_per_s,
        "decode_tokens_per_s": measured.decode_tokens_per_s,
        "inter_token_ms": inter_token * 1000,
        "kv_bytes_per_token": kv_bytes,
        "kv_capacity_bytes": subject.kv_capacity_tokens * kv_bytes,
        "load_time_s": subject.load_time_s,
        "memory_bytes": subject.hardware.memory_bytes * subject.gpus_per_replica,
        "itl_base_ms": measured.pace.base_s * 1000,
        "itl_per_sequence_ms": measured.pace.per_sequence_s * 1000,
        "ttft_ms": measured.ttft[prefill.TTFT_PROMPT_TOKENS].median * 1000,
        "prefill_points": [list(point) for point in points],
        "overhead_ms": overhead * 1000,
        "measured": {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "over": subject.over,
            "void": void(measured),
            "inter_token_slo_ms": subject.slo_ms,
            "decode_batch": measured.decode_batch,
            "decode_context_tokens": decode.CONTEXT_TOKENS,
            "ttft_prompt_tokens": prefill.TTFT_PROMPT_TOKENS,
            "load_time_from": subject.load_time_from,
            "load_parts": subject.load_parts,
            "kv_capacity_from": subject.kv_capacity_from,
            "itl_fit_worst_error": measured.pace.worst_error,
            "ttft_ms": {str(n): _ms(s) for n, s in measured.ttft.items()},
            "inter_token_ms": {str(b): _ms(s) for b, s in measured.inter_token.items()},
            "saturated_prefill_ms": _ms(measured.saturated),
            "saturated_prompts": measured.saturation[0],
            "saturated_prompt_tokens": measured.saturation[1],
        },
        "engine": {
            "max_sequences": subject.limits.max_sequences,
            "token_budget": subject.limits.token_budget,
            "block_tokens": subject.block_tokens,
            "context_tokens": subject.limits.context_tokens,
        },
        "ceiling": _ceiling(measured, ceiling),
        "bandwidth": asdict(bandwidths),
    }


def void(measured: Measured) -> list[str]:
    """Why these figures may not be trusted: a line for each that lies too far apart."""
    looked_at = [
        *((f"first token of {n} prompt tokens", s) for n, s in measured.ttft.items() if n >= SHORT_TOKENS),
        ("saturated prefill", measured.saturated),
        *((f"inter-token time of {b} streams", s) for b, s in measured.inter_token.items()),
    ]
    return [
        f"{name}: half of the repeats lie {s.relative:.0%} of the median apart, over {SPREAD_MAX:.0%}"
        for name, s in looked_at
        if s.relative > SPREAD_MAX
    ]


def _ceiling(measured: Measured, ceiling: Ceiling) -> dict[str, Any]:
    batch, context = measured.decode_batch, decode.CONTEXT_TOKENS
    decode_rate = ceiling.decode_tokens_per_s(batch, context)
    return {
        "weight_bytes": ceiling.checkpoint.weight_bytes,
        "parameters": ceiling.checkpoint.parameters,
        "compute": ceiling.checkpoint.compute,
        "memory_bytes_per_s": ceiling.memory_bytes_per_s,
        "flops_per_s": ceiling.flops_per_s,
        "decode_tokens_per_s": decode_rate,
        "decode_share": share(measured.decode_tokens_per_s, decode_rate),
        "prefill_tokens_per_s": ceiling.prefill_tokens_per_s,
        "prefill_share": share(measured.prefill_tokens_per_s, ceiling.prefill_tokens_per_s),
    }


def _ms(seconds: Spread) -> dict[str, float]:
    scaled = seconds.scaled(1000)
    return {"median": scaled.median, "q1": scaled.low, "q3": scaled.high, "repeats": scaled.repeats}
