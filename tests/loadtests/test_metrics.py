"""Metrics from samples worked by hand; and the truth table's own idea of right and wrong."""

from pathlib import Path
from typing import Any

import pytest

from configs.schema import parse
from loadtests.load import LlmLoad, VoiceLoad
from loadtests.metrics import llm_metrics, voice_metrics, wer_reply
from loadtests.results import Results
from loadtests.run import Run
from loadtests.sample import LlmSample
from loadtests.truth.cases import LLM_CASES, STALL
from loadtests.truth.table import Row, check, markdown
from loadtests.voice_analysis import TurnSample

ARRIVALS = {"kind": "constant", "rate_per_s": 1, "duration_s": 10}
LLM: LlmLoad = parse(
    LlmLoad,
    {"arrivals": ARRIVALS, "prompts": {"tokens": {"mean": 1}}, "slo": {"due_ttft_ms": 500, "inter_token_ms": 100}},
    "load",
)
VOICE: VoiceLoad = parse(VoiceLoad, {"arrivals": ARRIVALS, "reply_timeout_s": 15}, "load")


def sample(due_s: float, first_s: float, gap_s: float = 0.05, **more: Any) -> LlmSample:
    """Two tokens, `gap_s` apart; sent 10 ms after it was due."""
    chunks = [first_s, first_s + gap_s]
    return LlmSample(
        0, 0, due_s, due_s + 0.01, due_s + 0.02, first_s, chunks[-1], output_tokens=2, chunk_s=chunks, **more
    )


SAMPLES = [
    sample(0, 0.2, engine_ttft_ms=100.0),
    sample(1, 1.6),  # too late for the SLO
    sample(2, 2.1, gap_s=0.2),  # too slow for it
    LlmSample(1, 0, 3.0, 3.0, outcome="dropped", first_token_s=3.01, ended_s=3.5),
    LlmSample(2, 0, 4.0, 4.0, outcome="interrupted"),
]
METRICS = llm_metrics(SAMPLES, LLM, 10.0)


def values(name: str) -> list[float]:
    return [float(value) for value in METRICS[name].values]


def test_latencies_are_of_good_answers_from_the_due_moment() -> None:
    assert values("due_ttft_ms") == pytest.approx([200, 600, 100])
    assert values("ttft_ms") == pytest.approx([190, 590, 90])
    assert values("connect_ms") == pytest.approx([10, 10, 10])
    assert values("e2e_ms") == pytest.approx([250, 650, 300])
    assert values("inter_token_ms") == values("inter_chunk_ms") == pytest.approx([50, 50, 200])


def test_failures_and_interruptions() -> None:
    assert values("failure") == [0, 0, 0, 1]
    assert values("within_slo") == [1, 0, 0, 0]
    assert values("requests_per_s") == [0.4]
    assert values("goodput_per_s") == [0.1]
    assert values("output_tokens_per_s") == [pytest.approx(0.6)]


def test_client_over_engine() -> None:
    assert values("client_over_engine") == pytest.approx([2.0])


def test_lateness_is_of_every_start() -> None:
    assert values("late_ms") == pytest.approx([10, 10, 10, 0, 0])


def results(samples: list[LlmSample], load: LlmLoad = LLM, ended: str = "") -> Results:
    run = Run(Path("out"), load, 5, 10.0, [one.document() for one in samples], ended, {})
    return Results(run, [], llm_metrics(samples, load, 10.0))


def test_a_late_generator_voids_its_run() -> None:
    on_time = [sample(float(i), i + 0.2) for i in range(100)]
    late = [LlmSample(0, 0, 0.0, 0.05, outcome="ok") for _ in range(2)]
    assert results(on_time).void == []
    assert results(on_time[:98] + late[:1]).void == ["1.0% of starts were over 20 ms late: the generator was too slow"]
    assert results(on_time + late[:1]).void == []


def test_an_early_end_voids_a_run() -> None:
    assert results([sample(0, 0.1)], ended="interrupted").void == ["the run ended early: interrupted"]


def turn(number: int, response_ms: float | None = 250, **more: Any) -> TurnSample:
    outcome = more.pop("outcome", "ok" if response_ms is not None else "unanswered")
    return TurnSample(number // 2, number % 2, 0.0, 1.0, outcome, response_ms=response_ms, answers=1, **more)


def test_voice() -> None:
    turns = [
        turn(0),
        turn(1, None),
        turn(2, 400),
        turn(3, cut_off=True, holes_ms=[350.0]),
        turn(4, None, outcome="silent clip"),
        turn(5, 90, outcome="apology"),
    ]
    calls = [
        {"index": i, "due_s": 0.0, "dialled_s": 0.002, "outcome": outcome, "sent_frames": 100, "late_frames": late}
        for i, (outcome, late) in enumerate([("ok", 3), ("ok", 0), ("busy", 0), ("interrupted", 0)])
    ]
    metrics = voice_metrics(calls, turns, VOICE)
    found = {name: [float(value) for value in metric.values] for name, metric in metrics.items()}
    assert found["response_ms"] == [250, 15_000, 400, 250]
    assert found["unanswered"] == [0, 1, 0, 0, 0]
    assert found["apologised"] == [0, 0, 0, 0, 1]
    assert found["cut_off"] == [0, 0, 0, 1, 0]
    assert found["holed"] == [0, 0, 1]
    assert found["within_slo"] == [1, 0, 0, 0, 0]
    assert found["failure"] == [0, 0, 1]
    assert found["late_frame_share"] == [0.0075]
    assert metrics["response_ms"].clusters.tolist() == [0, 0, 1, 1]


def test_words_heard() -> None:
    """One word of five is wrong; the interrupted turn and the one that nobody listened to do not count."""
    turns = [
        turn(0, reply="It's Paris.", heard="it's paris"),
        turn(1, reply="Three-fold, yes!", heard="three fold guess"),
        turn(2, reply="Long story", heard="long", interrupted=True),
        turn(3, reply="Unheard"),
    ]
    assert wer_reply(turns) == pytest.approx(1 / 5)
    assert wer_reply(turns[2:]) is None


@pytest.mark.parametrize(
    ("metric", "known", "value", "right"),
    [
        ("due_ttft_ms p50", 50, 54.9, True),
        ("due_ttft_ms p50", 50, 55.1, False),
        ("due_ttft_ms p90", 4810, 4570, True),
        ("due_ttft_ms p90", 4810, 4560, False),
        ("failures", 10, 10, True),
        ("failures", 10, 9, False),
        ("within_slo share", 0.75, 0.74, False),
        ("client_over_engine p50", 1, 1.04, True),
        ("failures", 0, None, False),
    ],
)
def test_right_and_wrong(metric: str, known: float, value: float | None, right: bool) -> None:
    row = Row("case", metric, known, value, {"other": None})
    assert row.right(value) is right
    assert bool(check([row])) is not right
    assert ("✗" in markdown([row])) is (not right and value is not None)


def test_the_stalls_known_figures_by_hand() -> None:
    """Requests 30 to 89 wait for the stall's end at 9 s: 6.0 s, 5.9 s, … Of 120 in order, p90 lies a tenth of the way
    from the 108th, request 42's 4.8 s, to the 109th, request 41's 4.9 s."""
    case = next(case for case in LLM_CASES if case.name == "stall")
    assert STALL.moved_s(3.05) == 9 and STALL.moved_s(8.95) == 9 and STALL.moved_s(9.05) == 9.05
    assert case.known["due_ttft_ms p90"] == pytest.approx(4810)
