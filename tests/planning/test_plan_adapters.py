import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.errors import InputError

LLAMA_8B = [[4096, 4096], [4096, 1024], [4096, 1024], [4096, 4096], [4096, 14336], [4096, 14336], [14336, 4096]]
CASE = {
    "adapters": 3,
    "rank": 8,
    "max_lora_rank": 16,
    "layers": 1,
    "modules": [[100, 100]],
    "dtype_bytes": 2,
    "gpu_slots": 1,
    "cpu_slots": 2,
    "zipf_s": 1,
    "h2d_bytes_per_s": 3200,
    "disk_bytes_per_s": 1600,
    "kv_bytes_per_token": 64,
    "requests_per_s": 30,
    "request_replica_s": 0.1,
    "utilization_ceiling": 0.5,
    "gpus_per_replica": 2,
}


def test_by_hand(answer):
    # Popularity 1 : 1/2 : 1/3, that is 6, 3 and 2 of 11.
    out = answer("adapters", **CASE)
    assert (out.adapter_bytes, out.slot_bytes, out.waste_factor) == (3200, 6400, 2)
    assert (out.gpu_adapter_bytes, out.kv_tokens_lost) == (6400, 100)
    assert (out.hit_gpu, out.hit_cpu, out.hit_disk) == pytest.approx((6 / 11, 3 / 11, 2 / 11))
    assert out.expected_load_s == pytest.approx(3 / 11 * 1 + 2 / 11 * 3)  # 1 s over the bus, 2 s from disk
    assert (out.replicas, out.gpus_shared, out.gpus_merged) == (6, 12, 6)


@pytest.mark.parametrize(("rank", "megabytes"), [(8, 41.9), (16, 83.9), (64, 335.5)])
def test_published_sizes_of_llama_8b(answer, rank, megabytes):
    out = answer("adapters", **{**CASE, "rank": rank, "max_lora_rank": 64, "layers": 32, "modules": LLAMA_8B})
    assert out.adapter_bytes / 1e6 == pytest.approx(megabytes, abs=0.06)
    assert out.slot_bytes / 1e6 == pytest.approx(335.5, abs=0.06)


def test_slots_for_all_leave_nothing_to_load(answer):
    out = answer("adapters", **{**CASE, "gpu_slots": 5, "cpu_slots": 5})
    assert (out.hit_gpu, out.hit_cpu, out.hit_disk, out.expected_load_s) == (1, 0, 0, 0)


def test_without_favourites_slots_are_shares(answer):
    out = answer("adapters", **{**CASE, "adapters": 10, "zipf_s": 0})
    assert (out.hit_gpu, out.hit_cpu) == pytest.approx((0.1, 0.1))


@settings(max_examples=40, deadline=None)
@given(adapters=st.integers(1, 300), zipf_s=st.floats(0, 3), gpu=st.integers(1, 50), more=st.integers(0, 50))
def test_shares_add_up_and_more_slots_never_hit_less(answer, adapters, zipf_s, gpu, more):
    case = {**CASE, "adapters": adapters, "zipf_s": zipf_s, "cpu_slots": gpu + more}
    few, many = (answer("adapters", **{**case, "gpu_slots": slots}) for slots in (gpu, gpu + more))
    assert few.hit_gpu + few.hit_cpu + few.hit_disk == pytest.approx(1)
    assert many.hit_gpu >= few.hit_gpu - 1e-12


@pytest.mark.parametrize(
    ("change", "message"),
    [({"cpu_slots": 0}, "cpu_slots = 0: under gpu_slots = 1"), ({"rank": 32}, "max_lora_rank = 16: under rank = 32")],
)
def test_slots_and_ranks_that_do_not_fit_are_errors(answer, change, message):
    with pytest.raises(InputError, match=message):
        answer("adapters", **{**CASE, **change})


def test_finding_hundreds_of_gpus_become_a_few_dozen_and_the_rank_costs_eightfold(of_reference):
    out, sentence = of_reference("adapters")
    assert out.gpus_merged == 500
    assert 24 <= out.gpus_shared <= 48
    assert out.waste_factor == 8
    assert "500 merged fine-tunes need 500 GPUs" in sentence and "8 times" in sentence
