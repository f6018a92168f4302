"""A checkpoint folder as transformers and vLLM read it: config.json, safetensors, the tokenizer's files."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def shards(folder: Path) -> Iterator[tuple[str, "dict[str, torch.Tensor]"]]:
    """Each safetensors file's name and tensors, one file in memory at a time."""
    from safetensors.torch import load_file

    for path in sorted(folder.glob("*.safetensors")):
        yield path.name, load_file(path)


def write_shard(path: Path, tensors: "dict[str, torch.Tensor]") -> None:
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata={"format": "pt"})
    path.chmod(0o644)  # safetensors makes it readable by its owner alone
