"""The conversions: int8 by hand, smoothing that changes no output, and a small Llama carried through both."""

import json
from pathlib import Path

import pytest
import torch

from serve_apps.models import checkpoint
from serve_apps.models.dequantise import gguf_to_fp32
from serve_apps.models.errors import NotFound, PreparationError
from serve_apps.models.quantise import quantised, to_w8a8
from serve_apps.models.smooth import smooth, smooth_layer

pytestmark = pytest.mark.filterwarnings("default")  # torch and transformers have their own


def _nothing(*_: object) -> None:
    pass


def test_each_row_has_a_scale_of_its_own_and_what_is_no_layer_stays() -> None:
    name = "model.layers.0.self_attn.q_proj.weight"
    tensors = {
        name: torch.tensor([[127.0, -254.0, 3.0], [0.5, 0.0, -0.25], [0.0, 0.0, 0.0]]),
        "model.layers.0.input_layernorm.weight": torch.tensor([1.5, 2.0]),
        "model.embed_tokens.weight": torch.tensor([[0.25, 1.0]]),
    }
    result = quantised(tensors)
    # 254/127 = 2 a step: 63.5 -> 64 (half to even), -127, 1.5 -> 2; 0.5/127 a step: 127, 0, -63.5 -> -64
    assert result[name].tolist() == [[64, -127, 2], [127, 0, -64], [0, 0, 0]]
    assert result[name].dtype == torch.int8
    assert result[name + "_scale"].shape == (3, 1)
    assert result[name + "_scale"][:2, 0].tolist() == pytest.approx([2.0, 0.5 / 127])
    assert result["model.layers.0.input_layernorm.weight"].dtype == torch.bfloat16
    assert result["model.embed_tokens.weight"].tolist() == [[0.25, 1.0]]
    assert len(result) == 4


def test_smoothing_makes_inputs_and_weights_equally_large() -> None:
    layer = "model.layers.0"
    tensors = {f"{layer}.self_attn.{name}_proj.weight": torch.ones(2, 2) for name in "qkv"}
    tensors |= {f"{layer}.mlp.{name}_proj.weight": torch.ones(2, 2) for name in ("gate", "up", "down")}
    tensors |= {f"{layer}.{name}layernorm.weight": torch.ones(2) for name in ("input_", "post_attention_")}
    peaks = {name.removesuffix(".weight"): torch.tensor([1.0, 100.0]) for name in tensors if "_proj" in name}
    smooth_layer(tensors, peaks, layer)
    # channel 1: an input of up to 100 meets weights of 1; sqrt(100) = 10 is moved, so 10 meets 10
    assert tensors[f"{layer}.input_layernorm.weight"].tolist() == pytest.approx([1.0, 0.1])
    assert tensors[f"{layer}.self_attn.k_proj.weight"][0].tolist() == pytest.approx([1.0, 10.0])
    assert tensors[f"{layer}.mlp.down_proj.weight"][0].tolist() == pytest.approx([1.0, 10.0])
    # up reads smoothed inputs (times 1, 10) and makes down's (row 1 divided by 10)
    assert tensors[f"{layer}.mlp.up_proj.weight"].tolist() == [pytest.approx([1.0, 10.0]), pytest.approx([0.1, 1.0])]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random two-layer Llama checkpoint in two shards, with a few channels of large activations."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, tie_word_embeddings=True,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.input_layernorm.weight[:3] = 60.0
    folder = tmp_path_factory.mktemp("llama")
    model.save_pretrained(folder, max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    words = Tokenizer(WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(folder)
    return folder


def _logits(folder: Path) -> torch.Tensor:
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    with torch.no_grad():
        return model(torch.arange(48)[None]).logits  # type: ignore[no-any-return]


def test_a_smoothed_model_computes_the_same(llama: Path, tmp_path: Path) -> None:
    smooth(llama, tmp_path, _nothing)
    assert torch.allclose(_logits(llama), _logits(tmp_path), atol=1e-4)
    before = dict(pair for _, tensors in checkpoint.shards(llama) for pair in tensors.items())
    after = dict(pair for _, tensors in checkpoint.shards(tmp_path) for pair in tensors.items())
    assert set(before) == set(after)
    norm = "model.layers.0.input_layernorm.weight"
    assert before[norm].max() / before[norm].median() == 60  # the outliers that the fixture made
    assert after[norm].max() / after[norm].median() < 30


def test_a_quantised_model_is_read_by_others_and_is_close(llama: Path, tmp_path: Path) -> None:
    """transformers reads the format through compressed-tensors, independently of vLLM."""
    smoothed, small = tmp_path / "smoothed", tmp_path / "small"
    smoothed.mkdir(), small.mkdir()
    smooth(llama, smoothed, _nothing)
    to_w8a8(smoothed, small, _nothing)
    wanted, found = _logits(llama), _logits(small)
    assert ((wanted - found).norm() / wanted.norm()).item() < 0.05
    assert not torch.equal(wanted, found)


def test_a_sharded_checkpoint_keeps_its_shards_and_gets_an_index(llama: Path, tmp_path: Path) -> None:
    to_w8a8(llama, tmp_path, _nothing)
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())["weight_map"]
    for name, tensors in checkpoint.shards(tmp_path):
        assert {key for key, shard in index.items() if shard == name} == set(tensors)
    assert len(index) == sum(len(tensors) for _, tensors in checkpoint.shards(tmp_path))
    assert (tmp_path / "tokenizer.json").exists()


def test_what_cannot_be_converted_is_said(llama: Path, tmp_path: Path) -> None:
    small, again, empty = tmp_path / "small", tmp_path / "again", tmp_path / "empty"
    small.mkdir(), again.mkdir(), empty.mkdir()
    to_w8a8(llama, small, _nothing)
    with pytest.raises(PreparationError, match="not quantised yet"):
        to_w8a8(small, again, _nothing)
    with pytest.raises(NotFound, match=r"wants one \.gguf file, and the source has 0"):
        gguf_to_fp32(empty, again, _nothing)
    (empty / "config.json").write_text("{}")
    with pytest.raises(PreparationError, match="found no layers"):
        to_w8a8(empty, again, _nothing)
