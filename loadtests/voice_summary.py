"""A voice run in the form in which pipelines are compared: response, budget lines, what went wrong, words heard."""

from collections import Counter
from typing import Any

from loadtests.metrics import Metric
from loadtests.results import Results
from telemetry.budget import LINES

DISCARDED = ("silent clip", "interrupted", "apology")
"""Outcomes of turns without a latency: counted here, by name."""


def summary(results: Results) -> dict[str, Any]:
    """{response_ms: {p50, p95, max}, lines_ms: {line: {p50, p95}}, turns, cut_off, unanswered, discarded: {reason: n},
    wer_reply}; null where there are no samples."""
    metrics, turns = results.metrics, results.turns
    discarded = Counter(turn.outcome for turn in turns if turn.outcome in DISCARDED)
    return {
        "response_ms": _statistics(metrics["response_ms"], ("p50", "p95", "max")),
        "lines_ms": {line: _statistics(metrics[f"{line}_ms"], ("p50", "p95")) for line in LINES},
        "turns": len(turns) - discarded.total(),
        "cut_off": int(metrics["cut_off"].values.sum()),
        "unanswered": int(metrics["unanswered"].values.sum()),
        "discarded": dict(discarded),
        "wer_reply": _statistics(metrics["wer_reply"], ("value",))["value"],
    }


def _statistics(metric: Metric, names: tuple[str, ...]) -> dict[str, float | None]:
    found = metric.statistics()
    return {name: found[name].value if name in found else None for name in names}
