"""The static ceiling: what memory bandwidth and peak FLOPs allow, whatever the software does."""

from dataclasses import dataclass

from telemetry.profiler.checkpoint import Checkpoint


@dataclass(frozen=True)
class Ceiling:
    """A replica's limits. memory_bytes_per_s and flops_per_s are all its GPUs' together; None: not known."""

    checkpoint: Checkpoint
    memory_bytes_per_s: float | None
    flops_per_s: float | None

    def step_bytes(self, batch: int, context_tokens: int) -> int:
        """What a decode step reads: the weights once, and each sequence's KV."""
        return self.checkpoint.weight_bytes + batch * context_tokens * self.checkpoint.kv_bytes_per_token

    def inter_token_s(self, batch: int, context_tokens: int) -> float | None:
        """The shortest decode step: bytes over bandwidth, or 2 FLOPs a parameter and sequence over peak."""
        if self.memory_bytes_per_s is None:
            return None
        reading_s = self.step_bytes(batch, context_tokens) / self.memory_bytes_per_s
        if self.flops_per_s is None or self.checkpoint.parameters is None:
            return reading_s
        return max(reading_s, 2 * self.checkpoint.parameters * batch / self.flops_per_s)

    def decode_tokens_per_s(self, batch: int, context_tokens: int) -> float | None:
        step_s = self.inter_token_s(batch, context_tokens)
        return None if step_s is None else batch / step_s

    @property
    def prefill_tokens_per_s(self) -> float | None:
        """Peak over 2 FLOPs a parameter: attention over a long prompt comes on top, so this is an upper bound."""
        if self.flops_per_s is None or self.checkpoint.parameters is None:
            return None
        return self.flops_per_s / (2 * self.checkpoint.parameters)


def share(measured: float, ceiling: float | None) -> float | None:
    """The measured rate over the ceiling; None where that is not known."""
    return None if ceiling is None else measured / ceiling
