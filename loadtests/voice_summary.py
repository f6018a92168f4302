"""A voice run in the form in which pipelines are compared: response, budget lines, what went wrong, words heard."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from loadtests.metrics import Metric, Metrics
from loadtests.voice_analysis import TurnSample
from telemetry.budget import LINES

DISCARDED = ("silent clip", "interrupted", "apology")
"""Outcomes of turns without a latency: counted here, by name."""


def summary(metrics: Metrics, turns: Sequence[TurnSample]) -> dict[str, Any]:
    """{response_ms: {p50, p95, max}, lines_ms: {line: {p50, p95}}, turns, cut_off, doubled, holed, unanswered,
    discarded: {reason: n}, llm_calls_per_turn, wer_reply}; null where there are no samples.

    `llm_calls_per_turn` is what the pipelines say themselves, a message (RTVI's bot-llm-started) a call.
    """
    discarded = Counter(turn.outcome for turn in turns if turn.outcome in DISCARDED)
    return {
        "response_ms": _statistics(metrics["response_ms"], ("p50", "p95", "max")),
        "lines_ms": {line: _statistics(metrics[f"{line}_ms"], ("p50", "p95")) for line in LINES},
        "turns": len(turns) - discarded.total(),
        "cut_off": int(metrics["cut_off"].values.sum()),
        "doubled": int(metrics["doubled"].values.sum()),
        "holed": int(metrics["holed"].values.sum()),
        "unanswered": int(metrics["unanswered"].values.sum()),
        "discarded": dict(discarded),
        "llm_calls_per_turn": sum(turn.llm_calls for turn in turns) / len(turns) if turns else None,
        "wer_reply": _statistics(metrics["wer_reply"], ("value",))["value"],
    }


def _statistics(metric: Metric, names: tuple[str, ...]) -> dict[str, float | None]:
    found = metric.statistics()
    return {name: found[name].value if name in found else None for name in names}
