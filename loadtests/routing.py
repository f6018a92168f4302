"""Routers compared on one deployment of a few replicas: the loads that tell them apart, and what came out.

Every load is a list of conversations' requests with exact words, so that all arms get the same lengths and the same
repetitions at the same moments; only a first word is each arm's own, so that no arm finds another's prefixes cached.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from configs.schema import parse
from loadtests.llm_plan import Message, words
from loadtests.load import LlmLoad
from loadtests.sample import LlmSample
from telemetry.statistics import Estimate, percentile, ratio_of_percentiles


@dataclass(frozen=True)
class Sizes:
    """Words (about a token each) of the parts of a prompt, and how many prefixes there are beside the hot one."""

    prefix: int = 300
    suffix: int = 20
    turn: int = 40
    output: int = 8
    prefixes: int = 40


@dataclass(frozen=True)
class Case:
    """A load: `requests` at `share` of what the replicas serve with everything cached, or all at once in `bursts`."""

    name: str
    title: str
    requests: int
    share: float = 0.0
    bursts: int = 0


CASES = (
    Case("hot", "one hot prefix with 60 % of the requests beside 40 others", 200, share=0.85),
    Case("conversations", "many conversations", 100, share=0.6),
    Case("shifting", "prefixes that shift", 100, share=0.6),
    Case("together", "equal prefixes at t = 0", 100, bursts=5),
)
HOT_SHARE = 0.6
BURST_EVERY_S = 15.0


def prompts(case: Case, sizes: Sizes, seed: int, arm: str) -> list[list[Message]]:
    """The messages of each request, in the order in which they are due."""
    rng = np.random.default_rng([seed, len(case.name)])

    def prefix(number: int) -> str:
        text = words(sizes.prefix, np.random.default_rng([seed, len(case.name), number]))
        return f"{arm}-{case.name}-{seed}-{number} {text}"

    if case.name == "conversations":
        return _conversations(case, sizes, rng, prefix)
    asked = []
    for index in range(case.requests):
        if case.name == "hot":
            chosen = 0 if rng.random() < HOT_SHARE else 1 + int(rng.integers(sizes.prefixes))
        elif case.name == "shifting":  # eight at a time, all new after every fifth of the run
            chosen = index * 5 // case.requests * 8 + int(rng.integers(8))
        else:
            chosen = index * case.bursts // case.requests
        asked.append(_messages(prefix(chosen), words(sizes.suffix, rng)))
    return asked


def _messages(system: str, *turns: str) -> list[Message]:
    roles = ("user", "assistant")
    spoken = [{"role": roles[number % 2], "content": text} for number, text in enumerate(turns)]
    return [{"role": "system", "content": system}, *spoken]


def _conversations(case: Case, sizes: Sizes, rng: np.random.Generator, prefix: Any) -> list[list[Message]]:
    """Conversations of five turns each, ten at a time, each with a beginning of its own."""
    open_: dict[int, list[str]] = {}
    asked: list[list[Message]] = []
    begun = 0
    while len(asked) < case.requests:
        while len(open_) < 10:
            open_[begun], begun = [], begun + 1
        number = list(open_)[int(rng.integers(len(open_)))]
        turns = open_[number]
        turns.append(words(sizes.turn, rng))
        asked.append(_messages(prefix(number), *turns))
        turns.append(words(sizes.turn, rng))
        if len(turns) >= 10:
            del open_[number]
    return asked


def load_of(case: Case, sizes: Sizes, seed: int, arm: str, url: str, served_per_s: float, folder: Path) -> LlmLoad:
    """The load on `url`, Poisson or in bursts; its prompts and times as files in `folder`. Raises InputError."""
    dataset = folder / f"{case.name}-{seed}-{arm}.jsonl"
    rows = prompts(case, sizes, seed, arm)
    dataset.write_text("".join(json.dumps({"messages": row}) + "\n" for row in rows), encoding="utf-8")
    if case.bursts:
        due = [index * case.bursts // case.requests * BURST_EVERY_S for index in range(case.requests)]
    else:
        gaps = np.random.default_rng([seed, len(case.name), 1]).exponential(1.0, case.requests)
        due = list(np.cumsum(gaps) / (case.share * served_per_s))
    times = folder / f"{case.name}-{seed}-{arm}.times"
    times.write_text("".join(f"{at_s}\n" for at_s in due), encoding="utf-8")
    data = {
        "url": url,
        "seed": seed,
        "arrivals": {"kind": "trace", "path": str(times)},
        "prompts": {"dataset": str(dataset)},
        "output_tokens": {"mean": sizes.output},
        "ignore_eos": True,
        "timeout_s": 120,
        "late_ms": 100,
        "extra_body": {"user": arm},  # which router is asked: tests/support/compared_routers.py
    }
    return parse(LlmLoad, data, f"{case.name} of {arm}")


@dataclass
class Arm:
    """What one router did with a case, all seeds together."""

    name: str
    ttft_ms: list[float] = field(default_factory=list)  # from the due moment
    prompt_tokens: int = 0
    cached_tokens: int = 0
    failed: int = 0

    def add(self, samples: Sequence[LlmSample]) -> None:
        for sample in samples:
            if not sample.good or sample.first_token_s is None:
                self.failed += 1
                continue
            self.ttft_ms.append((sample.first_token_s - sample.due_s) * 1000)
            self.prompt_tokens += sample.prompt_tokens or 0
            self.cached_tokens += sample.cached_tokens or 0

    @property
    def cached_share(self) -> float:
        return self.cached_tokens / self.prompt_tokens if self.prompt_tokens else 0.0

    def p(self, q: float) -> float:
        return percentile(self.ttft_ms, q).value

    def ratio(self, other: "Arm", q: float = 0.95) -> Estimate:
        """This one's percentile over the other's, with its 95 % interval."""
        return ratio_of_percentiles(self.ttft_ms, other.ttft_ms, q)


def table(case: Case, arms: Sequence[Arm]) -> str:
    """Markdown; the ratio is the first arm's p95 over each other's."""
    first, *_ = arms
    rows = [
        "| router | requests | failed | TTFT p50 ms | p95 ms | cached | ours / its p95 |",
        "|---|---|---|---|---|---|---|",
    ]
    for arm in arms:
        ratio = "-"
        if arm is not first and arm.ttft_ms and first.ttft_ms:
            found = first.ratio(arm)
            ratio = f"{found.value:.2f} ({_end(found.low)} to {_end(found.high)})"
        times = f"{arm.p(0.5):.0f} | {arm.p(0.95):.0f}" if arm.ttft_ms else "- | -"
        rows.append(f"| {arm.name} | {len(arm.ttft_ms)} | {arm.failed} | {times} | {arm.cached_share:.1%} | {ratio} |")
    return f"{case.title[0].upper()}{case.title[1:]}:\n\n" + "\n".join(rows)


def _end(value: float | None) -> str:
    return "?" if value is None else f"{value:.2f}"
