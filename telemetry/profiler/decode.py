"""Decode: the time between tokens against the batch, its line, and the batch that an inter-token SLO allows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from telemetry.profiler.target import Prober, Reply, TargetFailed

PROMPT_TOKENS, OUTPUT_TOKENS = 64, 48
CONTEXT_TOKENS = PROMPT_TOKENS + OUTPUT_TOKENS // 2
"""What a sequence holds halfway: the context that inter-token times are measured at."""


@dataclass(frozen=True)
class Pace:
    """Seconds between tokens at batch b: base_s + b · per_sequence_s."""

    base_s: float
    per_sequence_s: float
    worst_error: float
    """The largest relative difference between the line and what was measured."""

    def at_s(self, batch: int) -> float:
        return self.base_s + batch * self.per_sequence_s


def batches(max_sequences: int) -> list[int]:
    """Doubling from 1, and the largest."""
    doublings = [2**i for i in range(int(math.log2(max_sequences)) + 1)]
    return doublings if doublings[-1] == max_sequences else [*doublings, max_sequences]


async def stream_batch(prober: Prober, batch: int) -> float:
    """Seconds between tokens of `batch` streams at once. Raises TargetFailed."""
    return inter_token_s(await prober.ask_together(batch, PROMPT_TOKENS, OUTPUT_TOKENS))


def inter_token_s(replies: Sequence[Reply]) -> float:
    """The mean time between two tokens while all the replies decode: from the last one's first token to the first
    one's last, so that nobody's prompt counts. Raises TargetFailed where they hardly overlapped."""
    begin = max(reply.at_s[0] for reply in replies)
    end = min(reply.at_s[-1] for reply in replies)
    seconds, tokens = 0.0, 0
    for reply in replies:
        inside = [i for i, at in enumerate(reply.at_s) if begin <= at <= end]
        if len(inside) > 1:
            seconds += reply.at_s[inside[-1]] - reply.at_s[inside[0]]
            tokens += reply.tokens[inside[-1]] - reply.tokens[inside[0]]
    if tokens < len(replies) * OUTPUT_TOKENS / 4:
        raise TargetFailed(
            f"of {len(replies)} streams sent together, only {tokens} tokens came while all were decoding: "
            "the target holds fewer at once, or others use it"
        )
    return seconds / tokens


def fit(inter_token_by_batch_s: Mapping[int, float]) -> Pace:
    """The line with neither part negative that least squares the relative errors (non-negative least squares, Lawson
    and Hanson, 1974)."""
    batch = np.array(sorted(inter_token_by_batch_s), dtype=np.float64)
    measured = np.array([inter_token_by_batch_s[int(b)] for b in batch])
    terms = np.stack([np.ones_like(batch), batch], axis=1)
    (base, slope), _ = nnls(terms / measured[:, None], np.ones_like(batch))
    errors = np.abs((base + slope * batch) / measured - 1)
    return Pace(float(base), float(slope), float(errors.max()))


def largest_batch(pace: Pace, slo_s: float, limit: int) -> int:
    """The largest batch up to `limit` whose line is within the SLO; 0 where one sequence alone is not."""
    if pace.per_sequence_s <= 0:
        return limit if pace.base_s <= slo_s else 0
    # A rounding error in the line's parts is no sequence less.
    return max(0, min(limit, math.floor((slo_s - pace.base_s) / pace.per_sequence_s + 1e-9)))
