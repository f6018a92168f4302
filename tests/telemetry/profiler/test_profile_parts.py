"""The pure parts: fits, medians, ceilings and sizes, against values worked by hand."""

import pytest

from configs.errors import InputError
from telemetry.profiler import decode, hardware, prefill
from telemetry.profiler.bandwidth import disk_bytes_per_s
from telemetry.profiler.ceiling import Ceiling, share
from telemetry.profiler.checkpoint import Checkpoint, read_checkpoint
from telemetry.profiler.decode import Pace
from telemetry.profiler.over_http import kv_tokens_in
from telemetry.profiler.spread import spread
from telemetry.profiler.target import Reply, TargetFailed


def reply(at_s, tokens=None):
    return Reply(0.0, tuple(at_s), tuple(tokens or range(1, len(at_s) + 1)), 8, 0)


def test_a_spread_is_the_quartiles_over_the_median():
    found = spread([5, 1, 4, 2, 3])
    assert (found.low, found.median, found.high, found.repeats) == (2, 3, 4, 5)
    assert found.relative == pytest.approx(2 / 3)
    assert found.scaled(1000).high == 4000
    with pytest.raises(ValueError):
        spread([])


def test_one_outlier_of_five_moves_neither_median_nor_quartiles():
    assert spread([1, 2, 3, 4, 5]) == spread([1, 2, 3, 4, 1000])


def test_only_the_time_in_which_all_decode_counts():
    # The first alone for ten steps of 10 ms, then both at 20 ms a step.
    first = [0.01 * i for i in range(11)] + [0.10 + 0.02 * i for i in range(1, 38)]
    second = [0.10 + 0.02 * i for i in range(48)]
    assert decode.inter_token_s([reply(first), reply(second)]) == pytest.approx(0.020)


def test_several_tokens_in_a_chunk_are_as_many_tokens():
    chunks = [0.1 * i for i in range(12)]
    assert decode.inter_token_s([reply(chunks, [4 * i for i in range(1, 13)])]) == pytest.approx(0.025)


def test_streams_that_hardly_overlap_are_no_measurement():
    early, late = [0.01 * i for i in range(48)], [0.46 + 0.01 * i for i in range(48)]
    with pytest.raises(TargetFailed, match="2 streams"):
        decode.inter_token_s([reply(early), reply(late)])


def test_a_line_is_found_again():
    pace = decode.fit({b: 0.020 + 0.003 * b for b in (1, 2, 4, 8, 16)})
    assert (pace.base_s, pace.per_sequence_s) == (pytest.approx(0.020), pytest.approx(0.003))
    assert pace.worst_error == pytest.approx(0, abs=1e-9)


def test_the_fit_is_by_relative_errors_and_never_negative():
    # Through (1, 1) and (2, 4) the line has base -2. Without one, (s − 1)² + (s/2 − 1)² is least at s = 1.2; absolute
    # errors would say 1.8.
    pace = decode.fit({1: 1.0, 2: 4.0})
    assert (pace.base_s, pace.per_sequence_s) == (0, pytest.approx(1.2))
    assert pace.worst_error == pytest.approx(0.4)
    assert decode.fit({1: 4.0, 2: 2.0}).per_sequence_s == 0


@pytest.mark.parametrize(
    ("slo_s", "limit", "batch"), [(0.100, 64, 16), (0.100, 8, 8), (0.024, 8, 0), (0.025, 8, 1), (0.0999, 64, 15)]
)
def test_the_largest_batch_within_the_slo(slo_s, limit, batch):
    assert decode.largest_batch(Pace(0.020, 0.005, 0), slo_s, limit) == batch


def test_where_a_sequence_costs_nothing_the_limit_is_the_engines():
    assert decode.largest_batch(Pace(0.020, 0, 0), 0.02, 7) == 7
    assert decode.largest_batch(Pace(0.020, 0, 0), 0.01, 7) == 0


def test_what_is_measured_for_an_engines_limits():
    assert prefill.lengths(2048) == [1, 16, 32, 64, 128, 256, 512, 1024]
    assert prefill.lengths(128) == [1, 16, 32, 64]
    assert decode.batches(16) == [1, 2, 4, 8, 16]
    assert decode.batches(12) == [1, 2, 4, 8, 12]
    assert decode.batches(1) == [1]
    assert prefill.saturation(2048, 256, 16) == (8, 256)
    assert prefill.saturation(131_072, 8192, 256) == (128, 256)
    assert prefill.saturation(256, 256, 4) == (4, 128)


def test_the_overhead_is_what_a_step_does_not_explain():
    assert prefill.overhead_s(0.065, 0.025) == pytest.approx(0.040)
    assert prefill.overhead_s(0.020, 0.025) == 0


def test_prefill_points_leave_out_the_overhead_and_never_fall():
    points = prefill.prefill_points({64: 0.2, 1: 0.07, 32: 0.09, 16: 0.10}, 0.03)
    assert points == [(1, pytest.approx(0.04)), (16, pytest.approx(0.065)), (32, pytest.approx(0.065)), (64, 0.17)]


CHECKPOINT = Checkpoint(10**9, 10**9, 10**5, 1000, "bf16")


def test_the_ceiling_is_bytes_over_bandwidth():
    # 1 GB of weights and 10 · 100 tokens of 100 kB at 100 GB/s: 11 ms for 10 tokens.
    ceiling = Ceiling(CHECKPOINT, 1e11, None)
    assert ceiling.inter_token_s(10, 100) == pytest.approx(0.011)
    assert ceiling.decode_tokens_per_s(10, 100) == pytest.approx(909.09, rel=1e-5)
    assert ceiling.prefill_tokens_per_s is None


def test_the_ceiling_is_flops_where_they_take_longer():
    # 2 · 10⁹ FLOPs a token at 1 TFLOP/s: 2 ms, 20 ms for ten.
    ceiling = Ceiling(CHECKPOINT, 1e11, 1e12)
    assert ceiling.decode_tokens_per_s(10, 100) == pytest.approx(500)
    assert ceiling.decode_tokens_per_s(1, 100) == pytest.approx(1 / 0.0101)
    assert ceiling.prefill_tokens_per_s == pytest.approx(500)


def test_an_unknown_machine_has_no_ceiling():
    ceiling = Ceiling(CHECKPOINT, None, None)
    assert ceiling.decode_tokens_per_s(10, 100) is None
    assert share(100, None) is None
    assert share(100, 400) == 0.25


TENSORS = {
    "model.embed_tokens.weight": ("F16", [10, 4], 2),
    "model.layers.0.mlp.up_proj.weight": ("I8", [4, 4], 1),
    "model.layers.0.mlp.up_proj.weight_scale": ("F32", [4, 1], 4),
    "model.norm.weight": ("F16", [4], 2),
}


def test_a_step_reads_what_the_engine_holds(write_checkpoint):
    # int8 stays (16 bytes); scale, norm and the embedding, which is the head too, are cast: (4 + 4 + 40) · 4.
    found = read_checkpoint(write_checkpoint(TENSORS, tie_word_embeddings=True), "float32")
    assert (found.weight_bytes, found.parameters, found.vocabulary) == (208, 16, 10)
    # 2 (K and V) · 2 layers · 1 head · 2 numbers · 4 bytes
    assert found.kv_bytes_per_token == 32


def test_an_embedding_of_its_own_is_not_read_by_a_step(write_checkpoint):
    head = {"lm_head.weight": ("F16", [10, 4], 2)}
    found = read_checkpoint(write_checkpoint(TENSORS | head), "float16", "fp8")
    assert (found.weight_bytes, found.parameters) == (16 + 2 * (4 + 4 + 40), 16)
    assert found.kv_bytes_per_token == 8


def test_auto_is_the_checkpoints_own_number_or_half_a_float32(write_checkpoint):
    assert read_checkpoint(write_checkpoint(TENSORS, dtype="float32"), "auto").kv_bytes_per_token == 16
    assert read_checkpoint(write_checkpoint(TENSORS, torch_dtype="bfloat16"), "auto").compute == "bf16"


def test_quantised_activations_set_the_peak(write_checkpoint):
    group = {"weights": {"num_bits": 8}, "input_activations": {"num_bits": 8, "type": "int"}}
    folder = write_checkpoint(TENSORS, quantization_config={"config_groups": {"group_0": group}})
    assert read_checkpoint(folder, "float32").compute == "int8"
    packed = {"model.layers.0.mlp.up_proj.weight_packed": ("I32", [4, 1], 4)}
    assert read_checkpoint(write_checkpoint(packed), "auto").parameters is None


@pytest.mark.parametrize("wrong", [{"kv_lora_rank": 512}, {"num_hidden_layers": None}, {"vocab_size": "10"}])
def test_a_model_whose_sizes_do_not_tell_its_kv_is_refused(write_checkpoint, wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        read_checkpoint(write_checkpoint(TENSORS, **wrong), "auto")


def test_no_model(tmp_path, write_checkpoint):
    with pytest.raises(InputError, match=r"config\.json"):
        read_checkpoint(tmp_path / "none", "auto")
    folder = write_checkpoint(TENSORS)
    (folder / "model.safetensors").write_bytes(b"abc")
    with pytest.raises(InputError, match="safetensors header"):
        read_checkpoint(folder, "auto")


def test_known_gpus_have_published_figures_and_unknown_ones_none():
    h200 = hardware.of_gpu("NVIDIA H200", 143_771)
    assert (h200.memory_bytes_per_s, h200.flops_per_s["fp8"], h200.memory_bytes) == (4.8e12, 1979e12, 141e9)
    assert h200.price_usd_per_hour == pytest.approx(4.75)
    other = hardware.of_gpu("NVIDIA H100 PCIe", 81_559)
    assert (other.memory_bytes_per_s, other.flops_per_s, other.price_usd_per_hour) == (None, {}, None)
    assert other.memory_bytes == 81_559 * 1_048_576


def test_a_processor_has_a_name_and_no_peak():
    assert hardware.processor_name("processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: Other\n") == (
        "Some CPU @ 2 GHz"
    )
    assert hardware.processor_name("") == "unknown processor"
    assert hardware.detect("cpu").flops_per_s == {}


def test_the_disk_is_read_whichever_way_it_can(tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(bytes(3 * 2**20 + 17))
    rate, how = disk_bytes_per_s(path)
    assert rate > 0
    assert how in ("direct", "evicted")


def test_the_engines_kv_stands_in_its_metrics():
    line = 'vllm:cache_config_info{block_size="32",cache_dtype="auto",engine="0",num_gpu_blocks="728"} 1.0'
    assert kv_tokens_in(f"# TYPE x gauge\n{line}\n") == 23_296
    assert kv_tokens_in(line.replace("vllm:", "ray_vllm_")) == 23_296
    assert kv_tokens_in(line.replace("728", "None")) is None
    assert kv_tokens_in("# nothing") is None
