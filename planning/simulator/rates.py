"""How fast one replica is: the numbers of a profile, in the form in which the simulated engine uses them."""

from bisect import bisect_right
from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    """One replica's rates, all its GPUs together.

    `prefill_curve` is ((prompt tokens, seconds), …), rising, from (0, 0) on, of a prompt alone on the replica; the
    last slope goes on. An engine's step takes the longer of its prefill and of reading the weights
    (`itl_base_s`: a step that is bound by memory hides computation up to that time), plus `itl_per_sequence_s` for
    each decoding sequence: the roofline of a mixed step, as vLLM's chunked prefill runs it.
    """

    prefill_curve: tuple[tuple[float, float], ...]
    itl_base_s: float
    itl_per_sequence_s: float
    kv_capacity_tokens: int
    decode_tokens_per_s: float
    load_time_s: float
    usd_per_hour: float

    @property
    def prefill_tokens_per_s(self) -> float:
        """The rate over the last segment of the curve: that of long prompts."""
        (a, start_s), (b, end_s) = self.prefill_curve[-2:]
        return (b - a) / (end_s - start_s)

    def prefill_s(self, first: int, end: int) -> float:
        """Seconds to compute prompt tokens `first` to `end` where those before are in memory."""
        curve = self.prefill_curve
        if len(curve) == 2:
            return (end - first) * curve[1][1] / curve[1][0]
        return self._curve_s(end) - self._curve_s(first)

    def _curve_s(self, tokens: float) -> float:
        curve = self.prefill_curve
        at = min(max(1, bisect_right(curve, (tokens, 0.0))), len(curve) - 1)
        (a, start_s), (b, end_s) = curve[at - 1], curve[at]
        return start_s + (tokens - a) * (end_s - start_s) / (b - a)
