"""The profile in words: the ceiling first, then every figure with its quartiles and its share of the ceiling."""

from collections.abc import Iterable
from typing import Any

from telemetry.profiler import decode
from telemetry.profiler.bandwidth import Bandwidths
from telemetry.profiler.ceiling import Ceiling


def ceiling_lines(ceiling: Ceiling, max_sequences: int, bandwidths: Bandwidths, published: bool) -> Iterable[str]:
    """The static ceiling and what it rests on; `-` for what is not known. published: or the bandwidth is measured."""
    checkpoint = ceiling.checkpoint
    source = "published" if published else "a copy, measured"
    yield "Static ceiling"
    yield _row("weights read a step", checkpoint.weight_bytes / 1e6, "MB")
    yield _row("KV a token", float(checkpoint.kv_bytes_per_token), "bytes")
    yield _row("memory", _over(ceiling.memory_bytes_per_s, 1e9), f"GB/s ({source})")
    yield _row(f"{checkpoint.compute} peak", _over(ceiling.flops_per_s, 1e12), "TFLOP/s")
    for batch in sorted({1, max_sequences}):
        rate = ceiling.decode_tokens_per_s(batch, decode.CONTEXT_TOKENS)
        yield _row(f"decode, batch {batch}", rate, "tokens/s")
    yield _row("prefill", ceiling.prefill_tokens_per_s, "tokens/s")
    yield "Transfers"
    yield _row("memory copy", bandwidths.memory_copy_bytes_per_s / 1e9, "GB/s")
    yield _row("host to device", _over(bandwidths.host_to_device_bytes_per_s, 1e9), "GB/s")
    yield _row("disk", bandwidths.disk_bytes_per_s / 1e9, f"GB/s ({bandwidths.disk_read})")


def measured_lines(made: dict[str, Any]) -> Iterable[str]:
    """The document's figures."""
    measured, ceiling = made["measured"], made["ceiling"]
    repeats = measured["saturated_prefill_ms"]["repeats"]
    yield f"Measured over {measured['over']}: medians of {repeats} rounds, their quartiles, and the rate"
    for tokens, ms in measured["ttft_ms"].items():
        alone_ms = ms["median"] - made["overhead_ms"]
        rate = int(tokens) * 1000 / alone_ms if alone_ms > 0 else None
        yield _line(f"first token, prompt of {tokens}", ms, rate)
    prompts, each = measured["saturated_prompts"], measured["saturated_prompt_tokens"]
    yield _line(f"{prompts} prompts of {each} at once", measured["saturated_prefill_ms"], made["prefill_tokens_per_s"])
    for batch, ms in measured["inter_token_ms"].items():
        yield _line(f"a token, streams at once: {batch}", ms, int(batch) * 1000 / ms["median"])
    yield (
        f"A token takes {made['itl_base_ms']:.1f} ms + {made['itl_per_sequence_ms']:.2f} ms a sequence (the line is "
        f"{measured['itl_fit_worst_error']:.0%} off at worst); {made['overhead_ms']:.1f} ms a request pass outside "
        f"the engine's steps."
    )
    yield (
        f"Prefill {made['prefill_tokens_per_s']:,.0f} tokens/s{_share(ceiling['prefill_share'])}; decode "
        f"{made['decode_tokens_per_s']:,.0f} tokens/s{_share(ceiling['decode_share'])} at a batch of "
        f"{measured['decode_batch']}, {made['inter_token_ms']:.1f} of {measured['inter_token_slo_ms']:g} ms a token."
    )
    yield (
        f"KV memory {made['kv_capacity_bytes'] / 1e9:.2f} GB (from {measured['kv_capacity_from']}); loads in "
        f"{made['load_time_s']:.1f} s ({measured['load_time_from']})"
        f"{_parts(measured['load_parts'])}."
    )


def _parts(parts: dict[str, float]) -> str:
    named = sorted(parts.items(), key=lambda part: -part[1])
    return (
        ": " + ", ".join(f"{name.removesuffix('_s').replace('_', ' ')} {s:.1f}" for name, s in named) if named else ""
    )


def _row(name: str, value: float | None, unit: str) -> str:
    return f"  {name:<26}{'-' if value is None else f'{value:,.1f}':>14} {unit}"


def _line(name: str, ms: dict[str, float], rate: float | None) -> str:
    quartiles = f"{ms['q1']:,.1f} to {ms['q3']:,.1f}"
    shown = "" if rate is None else f"{rate:>12,.0f} tokens/s"
    return f"  {name:<30}{ms['median']:>10,.1f} ms {quartiles:>22}{shown}".rstrip()


def _over(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _share(share: float | None) -> str:
    return " (ceiling not known)" if share is None else f" ({share:.0%} of the ceiling)"
