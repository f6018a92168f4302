"""Verdicts: pass, fail, and every way to be inconclusive."""

from pathlib import Path
from typing import Any

import pytest

from configs.errors import InputError
from configs.schema import parse
from loadtests.gates import Gate, Verdict, judge, read_gate
from loadtests.load import read_load
from loadtests.metrics import Metrics, llm_metrics, voice_metrics
from loadtests.results import metric_kinds
from loadtests.sample import LlmSample

LOAD: Any = read_load("llm", None, {})


def metrics(good: int, ttft_ms: float = 100, failed: int = 0) -> Metrics:
    samples = [
        LlmSample(
            i, 0, float(i), float(i), first_token_s=i + ttft_ms / 1000, ended_s=i + 0.3, chunk_s=[i + ttft_ms / 1000]
        )
        for i in range(good)
    ]
    samples += [LlmSample(good + i, 0, float(i), float(i), outcome="refused") for i in range(failed)]
    return llm_metrics(samples, LOAD, 60.0)


def gate(*checks: dict[str, Any], minimum: int = 10) -> Gate:
    return parse(Gate, {"minimum_samples": minimum, "checks": list(checks)}, "gate")


TTFT = {"metric": "due_ttft_ms", "statistic": "p95", "at_most": 150}
FAILURE = {"metric": "failure", "at_most": 0.05}


def test_pass() -> None:
    assert judge(gate(TTFT, FAILURE), metrics(20), []).verdict is Verdict.PASS


def test_the_failing_line_is_named() -> None:
    judged = judge(gate(TTFT, FAILURE), metrics(20, ttft_ms=200), [])
    assert judged.verdict is Verdict.FAIL
    assert [str(line) for line in judged.lines] == [
        "fail: due_ttft_ms p95 = 200 (≤ 150; 20 samples)",
        "pass: failure share = 0 (≤ 0.05; 20 samples)",
    ]


def test_at_least() -> None:
    rate = {"metric": "requests_per_s", "at_least": 1}
    assert judge(gate(rate), metrics(59), []).verdict is Verdict.FAIL
    assert judge(gate(rate), metrics(60), []).verdict is Verdict.PASS


def test_failures_are_counted_and_kept_out_of_latency() -> None:
    judged = judge(gate(TTFT, FAILURE), metrics(18, failed=2), [])
    assert [line.verdict for line in judged.lines] == [Verdict.PASS, Verdict.FAIL]


def test_no_traffic_and_too_few_are_never_a_pass() -> None:
    assert judge(gate(FAILURE), metrics(0), []).verdict is Verdict.INCONCLUSIVE
    assert judge(gate(TTFT, FAILURE), metrics(9), []).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("name", ["requests_per_s", "goodput_per_s", "output_tokens_per_s"])
def test_nor_is_a_rate_of_nothing(name: str) -> None:
    assert judge(gate({"metric": name, "at_most": 10}), metrics(0), []).verdict is Verdict.INCONCLUSIVE


def test_nor_are_late_frames_of_a_call_that_was_refused() -> None:
    load: Any = read_load("voice", None, {})
    calls = [{"index": 0, "due_s": 0.0, "dialled_s": 0.0, "outcome": "busy", "sent_frames": 0, "late_frames": 0}]
    found = voice_metrics(calls, [], load)
    for name in ("late_frame_share", "wer_reply"):
        assert judge(gate({"metric": name, "at_most": 1}), found, []).verdict is Verdict.INCONCLUSIVE


def test_a_check_may_ask_for_fewer() -> None:
    assert judge(gate(TTFT | {"minimum_samples": 5}), metrics(9), []).verdict is Verdict.PASS


def test_all_failed_is_a_failure() -> None:
    assert judge(gate(TTFT, FAILURE), metrics(0, failed=30), []).verdict is Verdict.FAIL


def test_a_void_run_proves_nothing_either_way() -> None:
    for found in (metrics(20), metrics(20, ttft_ms=200)):
        assert judge(gate(TTFT), found, ["late"]).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize("name", ["llm", "voice"])
def test_the_shipped_gates_name_metrics_that_exist(name: str) -> None:
    read_gate(Path(f"configs/gates/{name}.yaml"), metric_kinds(read_load(name, None, {})))


@pytest.mark.parametrize(
    ("check", "problem"),
    [
        ("{metric: ttft, at_most: 1}", "no such metric; one of due_ttft_ms"),
        ("{metric: due_ttft_ms, at_most: 1}", "expected one of p50"),
        ("{metric: failure, statistic: p50, at_most: 1}", "expected one of share"),
        ("{metric: failure}", "either at_most or at_least"),
        ("{metric: failure, at_most: 1, at_least: 0}", "either at_most or at_least"),
    ],
)
def test_a_gate_that_names_nothing_is_refused(tmp_path: Path, check: str, problem: str) -> None:
    path = tmp_path / "gate.yaml"
    path.write_text(f"minimum_samples: 1\nchecks:\n  - {check}\n")
    with pytest.raises(InputError, match=problem):
        read_gate(path, metric_kinds(LOAD))
