"""A GGUF file as an fp32 checkpoint: what its quantised weights mean, written out."""

import os
import warnings
from pathlib import Path

from serve_apps.models import checkpoint
from serve_apps.models.errors import NotFound
from serve_apps.models.files import Report


def gguf_to_fp32(source: Path, target: Path, report: Report) -> None:
    """Write `source`'s one .gguf file into the empty folder `target` as config, tokenizer and fp32 safetensors."""
    found = list(source.glob("*.gguf"))
    if len(found) != 1:
        raise NotFound(f"gguf-to-fp32 wants one .gguf file, and the source has {len(found)}")
    report("read GGUF (half a minute)", 0, None)
    os.environ["TQDM_DISABLE"] = "1"  # its bar would run into ours; tqdm reads this when it is first imported
    import torch
    import transformers

    transformers.utils.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, gguf_file=found[0].name)
        model = transformers.AutoModelForCausalLM.from_pretrained(source, gguf_file=found[0].name, dtype=torch.float32)
    tensors = model.state_dict()
    if model.config.tie_word_embeddings:
        tensors.pop("lm_head.weight", None)  # the embedding again
    config = model.config.to_dict()
    config.pop("quantization_config", None)  # it is not quantised any more
    config.pop("_name_or_path", None)
    config["architectures"] = [type(model).__name__]
    report("write fp32 weights", 0, None)
    checkpoint.write_shard(target / "model.safetensors", tensors)
    checkpoint.write_json(target / "config.json", config)
    checkpoint.write_json(target / "generation_config.json", model.generation_config.to_diff_dict())
    tokenizer.save_pretrained(target)
