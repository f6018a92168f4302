"""The largest step that the SLO allows."""

import pytest

from configs.errors import InputError
from configs.schema import parse
from planning.chunks import Chunks, chunks
from planning.profile import Profile

PROFILE = parse(
    Profile,
    {
        "model": "m", "gpu": "g", "gpus_per_replica": 1, "usd_per_gpu_hour": 1, "prefill_tokens_per_s": 1000,
        "decode_tokens_per_s": 100, "inter_token_ms": 40, "kv_bytes_per_token": 1, "kv_capacity_bytes": 1,
        "load_time_s": 1, "memory_bytes": 1, "itl_base_ms": 20, "itl_per_sequence_ms": 2,
    },
    "test",
)  # fmt: skip


def test_what_decoding_leaves_of_the_step_is_prefilled() -> None:
    # 150 ms - (20 + 4 · 2) = 122 ms at 1,000 tokens/s; half of it in whole blocks of 32 is 32.
    assert chunks(150, 4, 32, PROFILE) == Chunks(step_tokens=126, prompt_tokens=32)
    assert chunks(150, 4, 16, PROFILE) == Chunks(step_tokens=126, prompt_tokens=48)


def test_an_slo_that_decoding_alone_takes_is_refused() -> None:
    with pytest.raises(InputError, match="step_slo_ms"):
        chunks(60, 16, 32, PROFILE)
