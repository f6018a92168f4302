"""adapters: many fine-tunes as LoRA adapters on one base, beside a GPU for each merged one.

An adapter is two matrices a module, rank x in and out x rank (Hu et al., 2021). The engine reserves slots of
max_lora_rank whatever the adapter's own rank. Popularity is Zipf's; hits are those of a perfect least-frequently-used
cache.
"""

import math
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator

from planning.fleet import replicas_for
from planning.quantities import Ceiling, Count, NonNegative, Outputs, Positive, Scenario, Whole
from planning.topic import Picture, Row, Topic


class AdaptersScenario(Scenario):
    adapters: Annotated[Count, Field(le=1_000_000)]
    rank: Count
    max_lora_rank: Count
    layers: Count
    modules: Annotated[tuple[tuple[Count, Count], ...], Field(min_length=1)]
    dtype_bytes: Positive
    gpu_slots: Count
    cpu_slots: Whole
    zipf_s: NonNegative
    h2d_bytes_per_s: Positive
    disk_bytes_per_s: Positive
    kv_bytes_per_token: Positive
    requests_per_s: NonNegative
    request_replica_s: Positive
    utilization_ceiling: Ceiling
    gpus_per_replica: Count

    @field_validator("max_lora_rank")
    @classmethod
    def _holds_the_rank(cls, max_lora_rank: int, info: ValidationInfo) -> int:
        if max_lora_rank < info.data.get("rank", 0):
            raise ValueError(f"under rank = {info.data['rank']}")
        return max_lora_rank

    @field_validator("cpu_slots")
    @classmethod
    def _holds_what_the_gpu_holds(cls, cpu_slots: int, info: ValidationInfo) -> int:
        if cpu_slots < info.data.get("gpu_slots", 0):
            raise ValueError(
                f"under gpu_slots = {info.data['gpu_slots']}: what is on the GPU is kept in host memory too"
            )
        return cpu_slots


class AdaptersOutputs(Outputs):
    adapter_bytes: Annotated[float, Row("layers · Σ rank · (in + out) · dtype_bytes", "bytes")]
    slot_bytes: Annotated[float, Row("layers · Σ max_lora_rank · (in + out) · dtype_bytes", "bytes")]
    waste_factor: Annotated[float, Row("slot_bytes / adapter_bytes")]
    gpu_adapter_bytes: Annotated[float, Row("gpu_slots · slot_bytes", "bytes")]
    kv_tokens_lost: Annotated[float, Row("gpu_adapter_bytes / kv_bytes_per_token", "tokens")]
    hit_gpu: Annotated[float, Row("Zipf share of the top gpu_slots")]
    hit_cpu: Annotated[float, Row("Zipf share of the top cpu_slots − hit_gpu")]
    hit_disk: Annotated[float, Row("the rest")]
    expected_load_s: Annotated[float, Row("hit_cpu · bytes / h2d + hit_disk · bytes · (1/disk + 1/h2d)", "s a request")]
    replicas: Annotated[int, Row("⌈requests_per_s · request_replica_s / utilization_ceiling⌉", "replicas")]
    gpus_shared: Annotated[int, Row("replicas · gpus_per_replica", "GPUs")]
    gpus_merged: Annotated[int, Row("adapters · gpus_per_replica", "GPUs")]


def lora_bytes(rank: int, layers: int, modules: tuple[tuple[int, int], ...], dtype_bytes: float) -> float:
    """Bytes of an adapter of this rank; modules are a layer's [in, out]."""
    return layers * sum(rank * (wide + high) for wide, high in modules) * dtype_bytes


def zipf_share(top: int, adapters: int, zipf_s: float) -> float:
    """The share of requests that go to the `top` most popular adapters."""
    weights = [rank**-zipf_s for rank in range(1, adapters + 1)]
    return math.fsum(weights[:top]) / math.fsum(weights)


def plan_adapters(s: AdaptersScenario) -> AdaptersOutputs:
    """Memory, hits and GPUs of adapters on a shared base."""
    adapter = lora_bytes(s.rank, s.layers, s.modules, s.dtype_bytes)
    slot = lora_bytes(s.max_lora_rank, s.layers, s.modules, s.dtype_bytes)
    hit_gpu = zipf_share(s.gpu_slots, s.adapters, s.zipf_s)
    hit_memory = zipf_share(s.cpu_slots, s.adapters, s.zipf_s)
    replicas = replicas_for(s.requests_per_s * s.request_replica_s, s.utilization_ceiling)
    from_disk_s = adapter * (1 / s.disk_bytes_per_s + 1 / s.h2d_bytes_per_s)
    return AdaptersOutputs(
        adapter_bytes=adapter,
        slot_bytes=slot,
        waste_factor=slot / adapter,
        gpu_adapter_bytes=s.gpu_slots * slot,
        kv_tokens_lost=s.gpu_slots * slot / s.kv_bytes_per_token,
        hit_gpu=hit_gpu,
        hit_cpu=hit_memory - hit_gpu,
        hit_disk=1 - hit_memory,
        expected_load_s=(hit_memory - hit_gpu) * adapter / s.h2d_bytes_per_s + (1 - hit_memory) * from_disk_s,
        replicas=replicas,
        gpus_shared=replicas * s.gpus_per_replica,
        gpus_merged=s.adapters * s.gpus_per_replica,
    )


def finding(s: AdaptersScenario, o: AdaptersOutputs) -> str:
    return (
        f"{s.adapters} merged fine-tunes need {o.gpus_merged} GPUs, as adapters on a shared base {o.gpus_shared}; "
        f"max_lora_rank {s.max_lora_rank} reserves {o.waste_factor:g} times what rank {s.rank} needs: "
        f"{o.gpu_adapter_bytes / 1e9:.1f} GB a replica, {o.kv_tokens_lost:,.0f} tokens of KV. {o.hit_gpu:.0%} of the "
        f"requests find their adapter on the GPU, the average one waits {o.expected_load_s * 1000:.1f} ms for it."
    )


def picture(s: AdaptersScenario, o: AdaptersOutputs) -> Picture:
    slots = [n for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) if n < s.adapters] + [s.adapters]
    return Picture(
        "gpu_slots",
        "share of requests whose adapter is on the GPU",
        [float(n) for n in slots],
        {"hit_gpu": [zipf_share(n, s.adapters, s.zipf_s) for n in slots]},
    )


TOPIC = Topic(
    "How many GPUs do hundreds of fine-tunes need, merged or as adapters on a shared base?",
    AdaptersScenario,
    plan_adapters,
    finding,
    picture,
)
