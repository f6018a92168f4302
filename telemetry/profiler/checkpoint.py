"""What a checkpoint's files say: bytes and parameters that a token's way through the model touches, and its KV."""

import json
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from configs.errors import MISSING, InputError

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "half": 2, "float": 4}
FLOATS = {"F64", "F32", "F16", "BF16"}
"""safetensors' names of what the engine casts to its own dtype; all else (int8, fp8, packed) is kept as it is."""
PACKED = ("weight_packed", "qweight")
"""Several weights in one number: their count cannot be told from the shape."""


@dataclass(frozen=True)
class Checkpoint:
    """weight_bytes: what a decode step reads, as the engine holds it; parameters: the matrices that every prompt
    token passes, None where they are packed; compute: the number format of the multiplications."""

    weight_bytes: int
    parameters: int | None
    kv_bytes_per_token: int
    vocabulary: int
    compute: str


def read_checkpoint(folder: Path, dtype: str, kv_cache_dtype: str = "auto") -> Checkpoint:
    """A model's folder (config.json, *.safetensors) under the engine's dtype. Raises InputError for what is no such
    folder, or an attention whose KV the sizes do not tell."""
    config = _config(folder)
    element = _dtype(config, dtype)
    tied = bool(config.get("tie_word_embeddings", False))
    weight_bytes, parameters, packed = 0, 0, False
    for name, tensor in _tensors(folder).items():
        embedding = "embed_tokens" in name
        count, (begin, end) = math.prod(tensor["shape"]), tensor["data_offsets"]
        # Of an embedding of its own a step reads a row a token; a tied one is also the head, read whole.
        if not embedding or tied:
            weight_bytes += count * element if tensor["dtype"] in FLOATS else end - begin
        if name.endswith(".weight") and len(tensor["shape"]) > 1 and not embedding and "lm_head" not in name:
            parameters += count
        packed |= name.endswith(PACKED)
    layers, heads = _need(config, folder, "num_hidden_layers"), _need(config, folder, "num_attention_heads")
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or _need(config, folder, "hidden_size") // heads
    kv_element = 1 if kv_cache_dtype.startswith("fp8") else DTYPE_BYTES.get(kv_cache_dtype, element)
    return Checkpoint(
        weight_bytes=weight_bytes,
        parameters=None if packed else parameters,
        kv_bytes_per_token=2 * layers * kv_heads * head_dim * kv_element,
        vocabulary=_need(config, folder, "vocab_size"),
        compute=_compute(config, element),
    )


def weight_files(folder: Path) -> list[Path]:
    """The checkpoint's weights. Raises InputError where there are none."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(str(folder), "", MISSING, "holds no *.safetensors")
    return files


def _config(folder: Path) -> dict[str, Any]:
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(str(folder / "config.json"), "", MISSING, f"cannot be read ({error})") from error
    config |= config.get("text_config") or {}
    if "kv_lora_rank" in config:
        raise InputError(
            str(folder), "kv_lora_rank", config["kv_lora_rank"], "KV sizes of compressed attention are unknown here"
        )
    return config


def _dtype(config: dict[str, Any], dtype: str) -> int:
    """Bytes of a number in the engine. vLLM's `auto` is the checkpoint's own, but half of it for float32."""
    if dtype == "auto":
        own = str(config.get("dtype") or config.get("torch_dtype") or "bfloat16").removeprefix("torch.")
        return min(2, DTYPE_BYTES.get(own, 2))
    return DTYPE_BYTES[dtype]


def _compute(config: dict[str, Any], element: int) -> str:
    """fp8 or int8 where weights and activations both are; else the engine's dtype."""
    groups = (config.get("quantization_config") or {}).get("config_groups") or {}
    for group in groups.values():
        weights, inputs = group.get("weights") or {}, group.get("input_activations") or {}
        if weights.get("num_bits") == 8 and inputs.get("num_bits") == 8:
            return "int8" if inputs.get("type") == "int" else "fp8"
    if (config.get("quantization_config") or {}).get("quant_method") == "fp8":
        return "fp8"
    return "fp32" if element == 4 else "bf16"


def _tensors(folder: Path) -> dict[str, Any]:
    """Each tensor's dtype and shape, from the files' headers (safetensors: 8 bytes of length, then JSON)."""
    tensors: dict[str, Any] = {}
    for path in weight_files(folder):
        try:
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length))
        except (OSError, ValueError, struct.error) as error:
            raise InputError(str(path), "", MISSING, f"no safetensors header ({error})") from error
        tensors |= {name: tensor for name, tensor in header.items() if name != "__metadata__"}
    return tensors


def _need(config: dict[str, Any], folder: Path, key: str) -> int:
    if not isinstance(config.get(key), int):
        raise InputError(str(folder / "config.json"), key, config.get(key, MISSING), "expected a whole number")
    return int(config[key])
