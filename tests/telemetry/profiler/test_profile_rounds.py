"""The whole measurement against an engine whose rates are known: they come out again, and feed plans and simulator."""

import asyncio

import pytest

from configs.schema import parse
from planning.profile import Profile
from planning.simulator.scenario import Kind
from planning.topics import read_scenario, reference
from planning.voice import pace_of
from telemetry.profiler.bandwidth import Bandwidths
from telemetry.profiler.ceiling import Ceiling
from telemetry.profiler.checkpoint import Checkpoint
from telemetry.profiler.document import Subject, document
from telemetry.profiler.hardware import Hardware
from telemetry.profiler.report import ceiling_lines, measured_lines
from telemetry.profiler.rounds import Limits, OverTheSlo, measure
from telemetry.profiler.target import Prober, TargetFailed

LIMITS = Limits(2048, 256, 16, 16)


def run(target, slo_s=0.101, repeats=3, kv_tokens=100_000, said=None):
    said = [] if said is None else said
    prober = Prober(target, 1000, 1)
    return asyncio.run(
        measure(prober, LIMITS, slo_s, repeats, kv_tokens, 1, lambda name, done: said.append((name, done)))
    )


def made_of(measured, slo_ms=101.0):
    checkpoint = Checkpoint(10**8, 5 * 10**7, 1000, 1000, "int8")
    subject = Subject(
        model="m",
        hardware=Hardware("a machine", 1e10),
        gpus_per_replica=2,
        usd_per_gpu_hour=0.1,
        over="no clock",
        slo_ms=slo_ms,
        limits=LIMITS,
        block_tokens=32,
        load_time_s=30.0,
        load_time_from="a stopwatch",
        load_parts={"imports_s": 1.0, "weights_s": 2.5},
        kv_capacity_tokens=100_000,
        kv_capacity_from="the test",
    )
    bandwidths = Bandwidths(1e10, None, 1e9, "direct")
    return document(subject, measured, Ceiling(checkpoint, 1e10, None), bandwidths), bandwidths, checkpoint


def test_known_rates_come_out_again(virtual_engine):
    measured = run(virtual_engine)
    assert measured.overhead_s == pytest.approx(0.040)
    assert measured.prefill_tokens_per_s == pytest.approx(500)
    assert (measured.pace.base_s, measured.pace.per_sequence_s) == (pytest.approx(0.020), pytest.approx(0.005))
    # 101 ms hold all of the 16 sequences that the engine holds: 16 tokens every 100 ms.
    assert measured.decode_batch == 16
    assert measured.decode_tokens_per_s == pytest.approx(160)


def test_the_batch_within_the_slo_is_measured_itself(virtual_engine):
    measured = run(virtual_engine, slo_s=0.071)
    assert measured.decode_batch == 10
    assert measured.inter_token[10].repeats == 3
    assert measured.decode_tokens_per_s == pytest.approx(10 / 0.070)


def test_kv_memory_limits_the_batches(virtual_engine):
    assert max(run(virtual_engine, kv_tokens=5 * 112).inter_token) == 5
    with pytest.raises(TargetFailed, match="hold no sequence"):
        run(virtual_engine, kv_tokens=100)


def test_an_slo_that_one_sequence_misses(virtual_engine):
    with pytest.raises(OverTheSlo, match="25 ms"):
        run(virtual_engine, slo_s=0.020)


def test_no_two_prompts_are_alike_and_the_first_round_is_not_counted(virtual_engine):
    said = []
    measured = run(virtual_engine, repeats=2, said=said)
    assert measured.saturated.repeats == 2
    assert sum(1 for tokens, _ in virtual_engine.asked if tokens == 1024) == 3
    longer = [tuple(prompt) for prompt in virtual_engine.prompts if len(prompt) >= 16]
    assert len(set(longer)) == len(longer)
    assert all(125 <= token < 875 for prompt in longer for token in prompt)
    shares = [done for _, done in said]
    assert shares == sorted(shares)
    assert said[0][0].startswith("warm-up") and not said[-1][0].startswith("warm-up")


def test_a_disturbance_in_one_round_is_seen_and_moves_no_median(virtual_engine):
    quiet = made_of(run(virtual_engine, repeats=5))[0]
    asked = len(virtual_engine.asked) // 6
    virtual_engine.asked.clear()
    virtual_engine.slower = lambda number: 3.0 if number <= 2 * asked else 1.0  # the warm-up and one round
    disturbed = made_of(run(virtual_engine, repeats=5))[0]
    assert disturbed["itl_base_ms"] == pytest.approx(quiet["itl_base_ms"])
    assert quiet["measured"]["void"] == disturbed["measured"]["void"] == []
    virtual_engine.asked.clear()
    virtual_engine.slower = lambda number: 3.0 if number <= 4 * asked else 1.0
    assert len(made_of(run(virtual_engine, repeats=5))[0]["measured"]["void"]) > 5


def test_the_profile_feeds_the_plans_and_the_simulator(virtual_engine):
    made, _, _ = made_of(run(virtual_engine))
    profile = parse(Profile, made, "made")
    assert profile.kv_capacity_bytes == 100_000_000
    assert profile.memory_bytes == 2e10
    assert profile.ttft_ms == pytest.approx(40 + 32 / 500 * 1000)
    assert profile.inter_token_ms == pytest.approx(100)
    assert read_scenario("fleet", reference("fleet"), [("profile", made)]).profile == profile
    pace = pace_of(read_scenario("voice", reference("voice"), [("profile", made)]))
    assert (pace.itl_base_ms, pace.itl_per_sequence_ms) == (pytest.approx(20), pytest.approx(5))
    rates = parse(Kind, {"profile": made, "replicas": 1, "max_sequences": 16, "token_budget": 256}, "kind").rates
    assert rates.prefill_s(0, 1) == pytest.approx(0.025)
    assert rates.prefill_s(0, 512) == pytest.approx(1.024)
    assert rates.itl_base_s + 4 * rates.itl_per_sequence_s == pytest.approx(0.040)


def test_the_report_says_every_figure_and_its_share(virtual_engine):
    made, bandwidths, checkpoint = made_of(run(virtual_engine))
    text = "\n".join(measured_lines(made))
    assert "prompt of 1024" in text and "2,088.0 ms" in text  # 40 + 1024/500 s
    assert "Prefill 500 tokens/s (ceiling not known)" in text
    # 16 sequences of 88 tokens of 1 kB beside 100 MB at 10 GB/s: 10.14 ms, 1,578 tokens/s.
    assert "decode 160 tokens/s (10% of the ceiling)" in text
    ceiling = "\n".join(ceiling_lines(Ceiling(checkpoint, 1e10, None), 16, bandwidths, published=False))
    assert "1,577.8 tokens/s" in ceiling
    assert "- TFLOP/s" in ceiling and "- GB/s" in ceiling
