"""The measurement: rounds of everything in another order each, so that a disturbance shows as spread everywhere rather
than as an error somewhere. The first round warms up and is not counted."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from telemetry.profiler import decode, prefill
from telemetry.profiler.decode import Pace
from telemetry.profiler.spread import Spread, spread
from telemetry.profiler.target import Prober, TargetFailed

Progress = Callable[[str, float], None]
"""Called with what is measured next and how much is done, 0 to 1."""


@dataclass(frozen=True)
class Limits:
    """What the engine is set to hold: context_tokens of a request, token_budget of a step, max_sequences at once; and
    admitted_sequences, how many of those the way to it lets one caller fill."""

    context_tokens: int
    token_budget: int
    max_sequences: int
    admitted_sequences: int


@dataclass(frozen=True)
class Measured:
    """Times in seconds, each with its spread over the rounds.

    ttft: by prompt tokens, alone; saturated: for `saturation` = (prompts, tokens of each) at once; inter_token: by
    batch; decode_batch: the largest batch within the SLO, by measurement.
    """

    ttft: dict[int, Spread]
    saturation: tuple[int, int]
    saturated: Spread
    inter_token: dict[int, Spread]
    pace: Pace
    decode_batch: int

    @property
    def overhead_s(self) -> float:
        return prefill.overhead_s(self.ttft[1].median, self.inter_token[1].median)

    @property
    def prefill_tokens_per_s(self) -> float:
        prompts, tokens = self.saturation
        return prompts * tokens / (self.saturated.median - self.overhead_s)

    @property
    def decode_tokens_per_s(self) -> float:
        return self.decode_batch / self.inter_token[self.decode_batch].median


class OverTheSlo(ValueError):
    """One sequence alone is slower than the SLO."""


async def measure(
    prober: Prober, limits: Limits, slo_s: float, repeats: int, kv_capacity_tokens: int, seed: int, progress: Progress
) -> Measured:
    """Everything that needs the target. Raises TargetFailed, OverTheSlo."""
    held = min(limits.admitted_sequences, kv_capacity_tokens // (decode.PROMPT_TOKENS + decode.OUTPUT_TOKENS))
    if held < 1:
        raise TargetFailed(f"{kv_capacity_tokens} tokens of KV hold no sequence")
    lengths, batches = prefill.lengths(limits.context_tokens), decode.batches(held)
    saturation = prefill.saturation(limits.context_tokens, limits.token_budget, limits.admitted_sequences)
    ttft: dict[int, list[float]] = {n: [] for n in lengths}
    inter_token: dict[int, list[float]] = {b: [] for b in batches}
    saturated: list[float] = []
    rng = np.random.default_rng(seed)
    steps = (repeats + 1) * (len(lengths) + len(batches) + 1)
    done = 0

    def next_up(name: str, counted: bool) -> None:
        nonlocal done
        progress(name if counted else f"warm-up: {name}", done / steps)
        done += 1

    for number in range(repeats + 1):
        counted = number > 0
        for n in rng.permutation(lengths).tolist():
            next_up(f"first token of {n} prompt tokens", counted)
            seconds = await prefill.ttft_s(prober, n)
            ttft[n] += [seconds] * counted
        next_up(f"{saturation[0]} prompts of {saturation[1]} tokens at once", counted)
        seconds = await prefill.saturated_s(prober, *saturation)
        saturated += [seconds] * counted
        for b in rng.permutation(batches).tolist():
            next_up(f"{b} streams at once", counted)
            seconds = await decode.stream_batch(prober, b)
            inter_token[b] += [seconds] * counted
    pace = decode.fit({b: spread(values).median for b, values in inter_token.items()})
    progress("the batch that the inter-token SLO allows", 1.0)
    batch = await _batch_within(prober, pace, slo_s, held, repeats, inter_token)
    return Measured(
        ttft={n: spread(values) for n, values in ttft.items()},
        saturation=saturation,
        saturated=spread(saturated),
        inter_token={b: spread(inter_token[b]) for b in sorted(inter_token)},
        pace=pace,
        decode_batch=batch,
    )


async def _batch_within(
    prober: Prober, pace: Pace, slo_s: float, held: int, repeats: int, inter_token: dict[int, list[float]]
) -> int:
    """The line's batch, measured and lessened until the measurement itself is within the SLO."""
    batch = decode.largest_batch(pace, slo_s, held)
    while batch >= 1:
        if batch not in inter_token:
            inter_token[batch] = [await decode.stream_batch(prober, batch) for _ in range(repeats)]
        took_s = spread(inter_token[batch]).median
        if took_s <= slo_s:
            return batch
        batch = min(batch - 1, math.floor(batch * slo_s / took_s))
    alone_ms = spread(inter_token[1]).median * 1000
    if alone_ms <= slo_s * 1000:  # the line lay above what was measured
        return 1
    raise OverTheSlo(f"one sequence alone takes {alone_ms:.3g} ms a token")
