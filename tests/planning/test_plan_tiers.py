import pytest

from configs.errors import InputError


def model(name, requests_per_s, weights=10e9, replicas=2):
    return {
        "name": name,
        "requests_per_s": requests_per_s,
        "request_replica_s": 0.1,
        "weights_bytes": weights,
        "replicas": replicas,
    }


CASE = {
    "gpu_bytes": 50e9,
    "kv_reserve_fraction": 0.4,
    "utilization_ceiling": 0.8,
    "shared_ceiling": 0.4,
    "dedicated_busy": 0.5,
    "cold_requests_per_s": 0.01,
    "shared_copies": 2,
    "cold_gpus": 3,
    "load_bytes_per_s": 2e9,
}


def test_by_hand(answer):
    # Bins of 30 GB and 0.8 busy. 20 GB and 14 GB do not share; 10 GB goes to the first bin, 8 GB to the second.
    models = [
        model("busy", 20),  # 2 busy of 0.8: 3 GPUs
        model("steady", 5),  # 0.5 busy: at least 2 GPUs
        model("d", 1, 8e9),
        model("c", 1, 10e9),
        model("a", 1, 20e9),
        model("b", 1, 14e9),
        model("rare", 0.001, 40e9, replicas=1),
        model("never", 0, 12e9, replicas=1),
    ]
    out = answer("tiers", models=models, **CASE)
    found = {name: (one.tier, one.gpus, one.bin) for name, one in out.assignments.items()}
    assert found == {
        "busy": ("dedicated", 3, None),
        "steady": ("dedicated", 2, None),
        "a": ("shared", 2, 0),
        "b": ("shared", 2, 1),
        "c": ("shared", 2, 0),
        "d": ("shared", 2, 1),
        "rare": ("cold", 3, None),
        "never": ("cold", 3, None),
    }
    assert (out.gpus_before, out.gpus_after) == (14, 12)  # 5 + 2 bins · 2 + 3
    assert out.idle_before == pytest.approx(1 - 2.9001 / 14)
    assert out.idle_after == pytest.approx(1 - 2.9001 / 12)
    assert out.cold_wait_s == 20


def test_busy_time_fills_a_bin_too(answer):
    # 0.4 busy each in bins of 0.8: two fit, exactly, though the third's bytes would.
    out = answer("tiers", models=[model(name, 4, 1e9) for name in "abc"], **CASE)
    assert [out.assignments[name].bin for name in "abc"] == [0, 0, 1]


def test_without_cold_models_no_gpu_waits_for_them(answer):
    out = answer("tiers", models=[model("a", 1)], **CASE)
    assert (out.gpus_after, out.cold_wait_s) == (2, 0)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([model("big", 1, 31e9)], "big.weights_bytes = 31000000000.0: over the 3e"),
        ([model("huge", 0, 51e9)], "huge.weights_bytes = 51000000000.0: over gpu_bytes"),
        ([model("a", 1), model("a", 2)], "two models have one name"),
        ([], r"models = \[\]"),
    ],
)
def test_what_does_not_fit_is_an_error(answer, models, message):
    with pytest.raises(InputError, match=message):
        answer("tiers", models=models, **CASE)


def test_a_model_too_busy_to_share_and_too_idle_to_be_alone_is_an_error(answer):
    with pytest.raises(InputError, match=r"a.requests_per_s = 9.*shared copies take"):
        answer("tiers", models=[model("a", 9)], **{**CASE, "dedicated_busy": 1})


def test_finding_twenty_models_are_mostly_idle_and_the_tail_shares(of_reference):
    out, sentence = of_reference("tiers")
    assert len(out.assignments) == 20 and out.gpus_before == 40
    assert out.idle_before > 0.5
    assert out.gpus_after < out.gpus_before / 2
    paying = [name for name, one in out.assignments.items() if one.tier == "dedicated"]
    assert paying == ["chat-8b", "search-8b"]
    assert "91% idle" in sentence and "11 share" in sentence
