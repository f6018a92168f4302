"""The measured rates of one replica, all its GPUs together: what every plan is fed with."""

from pydantic import ConfigDict

from configs.schema import Frozen
from planning.quantities import Count, NonNegative, Positive


class Profile(Frozen):
    """Rates, capacities and costs of one replica. What else a measured profile holds is allowed.

    prefill_tokens_per_s (F): uncached prompt tokens, saturated and alone.
    decode_tokens_per_s (D): output tokens at the batch that holds inter_token_ms, alone.
    kv_capacity_bytes (K): KV memory; memory_bytes: all GPU memory.
    itl_base_ms + b·itl_per_sequence_ms: inter-token time at batch b; ttft_ms: first token on an idle engine.
    """

    model_config = ConfigDict(extra="allow")

    model: str
    gpu: str
    gpus_per_replica: Count
    usd_per_gpu_hour: NonNegative
    prefill_tokens_per_s: Positive
    decode_tokens_per_s: Positive
    inter_token_ms: Positive
    kv_bytes_per_token: Positive
    kv_capacity_bytes: Positive
    load_time_s: NonNegative
    memory_bytes: Positive
    itl_base_ms: NonNegative | None = None
    itl_per_sequence_ms: NonNegative | None = None
    ttft_ms: NonNegative | None = None

    @property
    def inter_token_s(self) -> float:
        """g: the inter-token time (s) that decode_tokens_per_s holds."""
        return self.inter_token_ms / 1000

    @property
    def usd_per_replica_hour(self) -> float:
        return self.gpus_per_replica * self.usd_per_gpu_hour

    @property
    def usd_per_replica_s(self) -> float:
        """s: what one replica costs a second."""
        return self.usd_per_replica_hour / 3600

    def kv_decode_tokens_per_s(self, prompt_tokens: float, output_tokens: float) -> float:
        """Tokens/s of the sequences that KV memory holds, each half grown, at one token every inter_token_ms."""
        sequences = self.kv_capacity_bytes / ((prompt_tokens + output_tokens / 2) * self.kv_bytes_per_token)
        return sequences / self.inter_token_s

    def decode_tokens_per_s_at(self, prompt_tokens: float, output_tokens: float) -> float:
        """D': decode tokens/s at this length, the less of compute's and KV memory's.

        A lower bound where memory binds: a smaller batch steps faster than inter_token_ms.
        """
        return min(self.decode_tokens_per_s, self.kv_decode_tokens_per_s(prompt_tokens, output_tokens))
