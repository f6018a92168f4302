"""What the cases `harvest` and `reclaim` share: rows that are all alike, and callers beside them."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from loadtests.batch_bench import Bench, read_rows, write_requests
from loadtests.llm_plan import words
from loadtests.load import LlmLoad
from loadtests.peers.process import ProcessError
from loadtests.run import Run, perform

ROW_WORDS, ROW_OUTPUT_TOKENS = 24, 32
FIRST_ROW_S = 180


def requests(model: str, count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Batch rows of one length, no two of them equal: a second's rows are a second's work."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        body = {
            "model": model, "messages": [{"role": "user", "content": words(ROW_WORDS, rng)}],
            "max_tokens": ROW_OUTPUT_TOKENS, "ignore_eos": True, "temperature": 0,
        }  # fmt: skip
        yield {"custom_id": f"row-{number}", "method": "POST", "url": "/v1/chat/completions", "body": body}


def begin(
    tier: Bench, folder: Path, model: str, count: int, rules: Mapping[str, float] = MappingProxyType({}),
    priority: str = "batch",
) -> None:  # fmt: skip
    """A job of so many rows, and wait until its first is answered: from then on it does what it can.

    Raises ProcessError.
    """
    rows = folder / "requests.jsonl"
    write_requests(rows, requests(model, count))
    tier.begin(folder, rows, rules, priority)
    deadline = time.monotonic() + FIRST_ROW_S
    while not any(row.good for row in read_rows(folder)):
        if time.monotonic() > deadline:
            raise ProcessError(f"no row was answered in {FIRST_ROW_S} s")
        time.sleep(0.2)


def beside(load: LlmLoad, folder: Path) -> tuple[Run, float]:
    """Callers as `load` says: the run, and its beginning by this machine's monotonic clock.

    Raises RuntimeError where it ended early, and KeyboardInterrupt where that was asked for.
    """
    begun_s: list[float] = []

    def note(line: dict[str, Any]) -> None:
        if line["begun_s"] is not None:
            begun_s[:] = [line["begun_s"]]

    run = perform(load, folder, progress=note)
    if run.ended == "interrupted":
        raise KeyboardInterrupt
    if run.ended or not begun_s:
        raise RuntimeError(f"the callers' run ended early: {run.ended}")
    return run, begun_s[0]
