"""A checkpoint in W8A8 int8, in the compressed-tensors format that vLLM reads.

Each output channel's weights are divided by (their largest magnitude / 127) and rounded; activations are quantised by
the engine, token by token, as they come. Embedding, norms and lm_head stay, in bf16. No calibration data is needed.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from serve_apps.models import checkpoint
from serve_apps.models.errors import PreparationError
from serve_apps.models.files import Report

if TYPE_CHECKING:
    import torch

QUANTIZATION: dict[str, Any] = {
    "quant_method": "compressed-tensors",
    "format": "int-quantized",
    "quantization_status": "compressed",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "channel", "dynamic": False},
            "input_activations": {
                "num_bits": 8,
                "type": "int",
                "symmetric": True,
                "strategy": "token",
                "dynamic": True,
            },
        }
    },
}


def to_w8a8(source: Path, target: Path, report: Report) -> None:
    """Write the checkpoint `source` into the empty folder `target` with its layers' matrices in int8."""
    config = checkpoint.read_json(source / "config.json")
    if "quantization_config" in config:
        raise PreparationError("to-w8a8 wants a checkpoint that is not quantised yet")
    for path in source.iterdir():
        if path.suffix in {".json", ".jinja", ".txt", ".model"} and not path.name.endswith(".safetensors.index.json"):
            shutil.copyfile(path, target / path.name)
    where: dict[str, str] = {}
    total_bytes = sum(path.stat().st_size for path in source.glob("*.safetensors"))
    done_bytes = 0
    for name, tensors in checkpoint.shards(source):
        small = quantised(tensors)
        checkpoint.write_shard(target / name, small)
        where |= dict.fromkeys(small, name)
        done_bytes += (source / name).stat().st_size
        report("quantise to W8A8", done_bytes, total_bytes)
    if not any(key.endswith(".weight_scale") for key in where):
        raise PreparationError("to-w8a8 found no layers to quantise (expected safetensors with model.layers.*)")
    if len(set(where.values())) > 1:
        checkpoint.write_json(target / "model.safetensors.index.json", {"metadata": {}, "weight_map": where})
    config["quantization_config"] = QUANTIZATION
    config["dtype"] = "bfloat16"
    config.pop("torch_dtype", None)
    checkpoint.write_json(target / "config.json", config)


def quantised(tensors: "dict[str, torch.Tensor]") -> "dict[str, torch.Tensor]":
    """The layers' matrices [out, in] as int8, an fp32 `weight_scale` [out, 1] beside each; the rest in bf16."""
    import torch

    result: dict[str, torch.Tensor] = {}
    for name, tensor in tensors.items():
        if ".layers." in name and name.endswith(".weight") and tensor.ndim == 2:
            weight = tensor.float()
            scale = weight.abs().amax(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float32).tiny * 127) / 127
            result[name] = (weight / scale).round().clamp(-127, 127).to(torch.int8)
            result[name + "_scale"] = scale
        else:
            result[name] = tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor
    return result
