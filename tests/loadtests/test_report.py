"""The report: it needs nothing else, and every plot has its data, in a real browser."""

import functools
import re
from pathlib import Path
from typing import Any

import pytest

from configs.schema import parse
from loadtests.comparison import compare
from loadtests.gates import Gate, judge
from loadtests.load import LlmLoad, VoiceLoad
from loadtests.metrics import llm_metrics, voice_metrics
from loadtests.report import comparison_report, report
from loadtests.results import Results
from loadtests.run import Run
from loadtests.sample import LlmSample
from loadtests.sweep import Knee, Trial
from loadtests.sweep_runs import sweep_report
from loadtests.voice_analysis import TurnSample
from loadtests.voice_summary import summary
from tests.support.browser import browser

MACHINE = {"processor": "a <fast> one", "commit": "abc123"}


def llm_results(ttft_ms: float = 100.0) -> Results:
    load = parse(
        LlmLoad,
        {"arrivals": {"kind": "constant", "rate_per_s": 1, "duration_s": 40}, "prompts": {"tokens": {"mean": 1}},
         "slo": {"due_ttft_ms": 500}},
        "load",
    )  # fmt: skip
    samples = []
    for i in range(40):
        first_s = i + ttft_ms / 1000 * (1 + i % 4 / 4)
        samples.append(
            LlmSample(i, 0, float(i), i + 0.001, i + 0.002, first_s, first_s + 0.2, chunk_s=[first_s, first_s + 0.1],
                      output_tokens=2, engine_ttft_ms=50.0 + i, outcome="dropped" if i % 10 == 9 else "ok")
        )  # fmt: skip
    run = Run(Path("out"), load, 40, 40.0, [sample.document() for sample in samples], "", MACHINE)
    return Results(run, [], llm_metrics(samples, load, 40.0))


def voice_results() -> Results:
    load = parse(VoiceLoad, {"arrivals": {"kind": "constant", "rate_per_s": 1, "duration_s": 4}}, "load")
    turns = [
        TurnSample(i // 3, i % 3, float(i // 3), 2.0 + i, "ok", response_ms=250.0 + i, network_ms=10, endpoint_ms=200,
                   asr_ms=10, llm_first_token_ms=5, clause_ms=5, tts_ms=20.0 + i, answers=1)
        for i in range(12)
    ]  # fmt: skip
    calls = [
        {"index": i, "due_s": float(i), "dialled_s": i + 0.001, "ended_s": i + 9.0, "outcome": "ok", "sent_frames": 450,
         "late_frames": 0, "said": []}
        for i in range(4)
    ]  # fmt: skip
    return Results(Run(Path("out"), load, 4, 4.0, calls, "", MACHINE), turns, voice_metrics(calls, turns, load))


@functools.cache
def pages() -> dict[str, str]:
    llm = llm_results()
    gate = parse(Gate, {"minimum_samples": 5, "checks": [{"metric": "failure", "at_most": 0.01}]}, "gate")
    slower = llm_results(150)
    trials = tuple(
        Trial(
            rate, rate < 3, {"within_slo": 1 / rate, "due_ttft_ms_p50": 90 * rate, "due_ttft_ms_p95": None, "lines": []}
        )
        for rate in (1.0, 2.0, 4.0)
    )
    return {
        "llm": report(llm, judge(gate, llm.metrics, llm.void)),
        "voice": report(voice_results()),
        "comparison": comparison_report(llm, slower, compare(llm.metrics, slower.metrics)),
        "sweep": sweep_report(Knee(2.0, 4.0, trials)),
    }


def test_the_gates_failing_line_stands_in_the_report() -> None:
    page = pages()["llm"]
    assert "Gate: <strong>fail</strong>" in page
    assert "fail: failure share = 0.1 (≤ 0.01; 40 samples)" in page


def test_the_summary_of_a_voice_run() -> None:
    """Twelve turns of 250 to 261 ms; the twelve tts lines are 20 to 31 ms."""
    results = voice_results()
    found = summary(results.metrics, results.turns)
    assert found["response_ms"] == {"p50": 255.5, "p95": pytest.approx(260.45), "max": 261}
    assert found["lines_ms"]["tts"] == {"p50": 25.5, "p95": pytest.approx(30.45)}
    assert (found["turns"], found["cut_off"], found["unanswered"], found["wer_reply"]) == (12, 0, 0, None)


def test_names_from_outside_are_escaped() -> None:
    assert "a &lt;fast&gt; one" in pages()["llm"]


def test_a_slower_run_differs() -> None:
    lines = {(line.metric, line.statistic): line for line in compare(llm_results().metrics, llm_results(150).metrics)}
    assert lines["due_ttft_ms", "p50"].ratio.value == pytest.approx(1.5)
    assert lines["due_ttft_ms", "p50"].differs
    assert not lines["late_ms", "p50"].differs


def test_nothing_is_fetched() -> None:
    for page in pages().values():
        assert not re.search(r'(?:src|href)="(?!#)', page)
        assert not re.search(r"url\((?!#)", page)


@pytest.mark.browser
@pytest.mark.parametrize("name", ["llm", "voice", "comparison", "sweep"])
def test_every_plot_renders_with_its_data(name: str, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(pages()[name], encoding="utf-8")
    with browser() as chromium:
        page = chromium.new_page()
        page.goto(path.as_uri())
        _check_figures(page, {"llm": 6, "voice": 5, "comparison": 1, "sweep": 2}[name])


def _check_figures(page: Any, expected: int) -> None:
    figures = page.locator("figure")
    assert figures.count() == expected
    for i in range(figures.count()):
        figure = figures.nth(i)
        box = figure.locator("svg").bounding_box()
        assert box["width"] > 300 and box["height"] > 100
        assert figure.locator("svg path").count() > 10
        figure.locator("summary").click()
        assert figure.locator("tbody tr").first.is_visible()
        assert figure.locator("tbody tr").count() >= 2
