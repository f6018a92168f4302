"""A checkpoint whose activations have smaller outliers, and which computes the same: SmoothQuant.

A layer's input channel j is divided by s_j = max|x_j|^a / max|w_j|^(1-a), with a = 1/2, and the weights that read it
are multiplied by s_j (Xiao et al. 2023, arXiv:2211.10438, equations 3 and 4). The division is folded into what makes
the channel: the norm before attention and before the MLP, and the up projection before the down projection. max|x_j|
is taken over a few sentences.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from serve_apps.models import checkpoint
from serve_apps.models.errors import PreparationError
from serve_apps.models.files import Report

if TYPE_CHECKING:
    import torch

_SENTENCES = (
    "Once upon a time there was a small village by the sea, where an old fisherman lived with his daughter.",
    "Water boils at 100 degrees Celsius. The Earth orbits the Sun once a year, in 365 days. 1, 2, 3, 4, 5.",
    "I would like to book a table for two at seven o'clock, please. Of course! May I have your name?",
    "The quick brown fox jumps over the lazy dog, while London, Paris and Tokyo are large cities.",
)


def smooth(source: Path, target: Path, report: Report) -> None:
    """Write the checkpoint `source` (Llama's layout: separate q, k, v and gate, up, down) into the empty `target`."""
    report("smooth activations", 0, None)
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]

    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32)
    names = set(model.state_dict())
    if "model.layers.0.mlp.up_proj.weight" not in names or "model.layers.0.self_attn.q_proj.weight" not in names:
        raise PreparationError(f"smooth knows Llama's layout of layers, and {type(model).__name__} has another")
    batches = [torch.tensor([tokenizer.encode(sentence)]) for sentence in _SENTENCES]
    tensors = model.state_dict()
    peaks = _input_peaks(model, batches)
    for layer in range(model.config.num_hidden_layers):
        smooth_layer(tensors, peaks, f"model.layers.{layer}")
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)
    for path in source.iterdir():
        if ".safetensors" not in path.name:
            shutil.copyfile(path, target / path.name)
    checkpoint.write_shard(target / "model.safetensors", tensors)


def smooth_layer(tensors: "dict[str, torch.Tensor]", peaks: "dict[str, torch.Tensor]", layer: str) -> None:
    """Smooth one layer's weights [out, in] in place; `peaks` has each reader's largest |input| a channel [in]."""
    attention = [f"{layer}.self_attn.{name}_proj" for name in ("q", "k", "v")]
    mlp = [f"{layer}.mlp.{name}_proj" for name in ("gate", "up")]
    import torch

    for maker, readers in (
        (f"{layer}.input_layernorm", attention),
        (f"{layer}.post_attention_layernorm", mlp),
        (f"{layer}.mlp.up_proj", [f"{layer}.mlp.down_proj"]),
    ):
        weights = [tensors[f"{reader}.weight"] for reader in readers]
        largest = torch.stack([weight.abs().amax(dim=0) for weight in weights]).amax(dim=0)
        scale = (peaks[readers[0]].clamp(min=1e-5) / largest.clamp(min=1e-5)).sqrt()
        made = tensors[f"{maker}.weight"]
        made /= scale if made.ndim == 1 else scale[:, None]
        if f"{maker}.bias" in tensors:
            tensors[f"{maker}.bias"] /= scale
        for weight in weights:
            weight *= scale


def _input_peaks(model: "torch.nn.Module", batches: "list[torch.Tensor]") -> "dict[str, torch.Tensor]":
    """The largest magnitude of each linear layer's input channels [in] over `batches` of token ids [1, tokens]."""
    import torch

    peaks: dict[str, torch.Tensor] = {}

    def watch(name: str) -> "torch.utils.hooks.RemovableHandle":
        def hook(_: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> None:
            seen = inputs[0].abs().flatten(0, -2).amax(dim=0)
            peaks[name] = torch.maximum(peaks[name], seen) if name in peaks else seen

        return model.get_submodule(name).register_forward_pre_hook(hook)

    handles = [watch(name) for name, module in model.named_modules() if isinstance(module, torch.nn.Linear)]
    with torch.no_grad():
        for batch in batches:
            model(batch)
    for handle in handles:
        handle.remove()
    return peaks
