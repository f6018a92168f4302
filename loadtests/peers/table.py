"""The figures of a comparison as tables that a person reads."""

from typing import Any

from loadtests.peers.compare import PEER, PRODUCT, TUNED
from telemetry.budget import LINES

NAMES = {PRODUCT: "product", PEER: "stock pipecat", TUNED: "tuned pipecat"}


def markdown(callers: dict[str, Any]) -> str:
    """A table a number of callers, and the product's lines. Percentiles count an unanswered turn as its time limit."""
    rows = []
    for count, pipelines in callers.items():
        rows += [
            f"{count} callers at a time",
            "",
            "| pipeline | turns | response p50 ms | p95 | max | cut off | unanswered | doubled | holed | discarded "
            "| LLM calls a turn | WER of the reply |",
            "|---" * 12 + "|",
        ]
        for name, found in pipelines.items():
            discarded = ", ".join(f"{n} {reason}" for reason, n in found["discarded"].items()) or "0"
            cells = [
                NAMES[name], found["turns"], *(_ms(found["response_ms"][key]) for key in ("p50", "p95", "max")),
                found["cut_off"], found["unanswered"], found["doubled"], found["holed"], discarded,
                _two(found["llm_calls_per_turn"]), _two(found["wer_reply"]),
            ]  # fmt: skip
            rows.append("| " + " | ".join(str(cell) for cell in cells) + " |")
        lines = pipelines[PRODUCT]["lines_ms"]
        rows += ["", "| line of the product | p50 ms | p95 ms |", "|---|---|---|"]
        rows += [f"| {line} | {_ms(lines[line]['p50'])} | {_ms(lines[line]['p95'])} |" for line in LINES]
        rows.append("")
    return "\n".join(rows)


def _ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _two(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
