"""Prefill: the time of a prompt alone against its length, and the rate when prompts queue."""

import math
from collections.abc import Mapping

import numpy as np
from scipy.optimize import isotonic_regression

from telemetry.profiler.target import Prober

SHORTEST_TOKENS = 16
TTFT_PROMPT_TOKENS = 32
"""A spoken question: what `ttft_ms` is measured with."""
SATURATED_PROMPT_TOKENS = 256
SATURATED_STEPS = 4
"""Full engine steps that the queued prompts fill at least."""


def lengths(context_tokens: int) -> list[int]:
    """One token, then doubling from the shortest up to half the context."""
    longest = max(context_tokens // 2, TTFT_PROMPT_TOKENS)
    doublings = int(math.log2(longest / SHORTEST_TOKENS))
    return [1, *(SHORTEST_TOKENS * 2**i for i in range(doublings + 1))]


def saturation(context_tokens: int, token_budget: int, max_sequences: int) -> tuple[int, int]:
    """(prompts, tokens of each) that keep the engine's steps full."""
    tokens = min(SATURATED_PROMPT_TOKENS, context_tokens // 2)
    return min(max_sequences, max(8, math.ceil(SATURATED_STEPS * token_budget / tokens))), tokens


async def ttft_s(prober: Prober, prompt_tokens: int) -> float:
    """Time to the first token of one fresh prompt on an idle target. Raises TargetFailed."""
    return (await prober.ask(prompt_tokens, 1)).ttft_s


async def saturated_s(prober: Prober, prompts: int, prompt_tokens: int) -> float:
    """From the first sent of so many prompts at once to the last one's first token. Raises TargetFailed."""
    replies = await prober.ask_together(prompts, prompt_tokens, 1)
    return max(reply.at_s[0] for reply in replies) - min(reply.sent_s for reply in replies)


def overhead_s(ttft_one_token_s: float, inter_token_alone_s: float) -> float:
    """What a request spends outside the engine's steps, in seconds.

    A prompt of one token takes one engine step, as long as a decode step of one sequence; the rest is the way there
    and back.
    """
    return max(0.0, ttft_one_token_s - inter_token_alone_s)


def prefill_points(ttft_by_length_s: Mapping[int, float], overhead: float) -> list[tuple[int, float]]:
    """(prompt tokens, engine seconds alone) that never fall with the length: noise is pooled (isotonic least squares,
    pool adjacent violators, Ayer et al., 1955)."""
    tokens = sorted(ttft_by_length_s)
    seconds = np.array([max(ttft_by_length_s[n] - overhead, 1e-9) for n in tokens])
    rising = isotonic_regression(seconds).x
    return [(n, float(s)) for n, s in zip(tokens, rising, strict=True)]
