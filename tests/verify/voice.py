"""The voice part's long check: twenty turns of the product, of stock pipecat and of the same tuned, interleaved.

All three use the same models, the same LLM tier and the same caller, one call at a time.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from loadtests.call import dial
from loadtests.conversation import converse
from loadtests.turns import TurnResult
from loadtests.wav import Clip
from telemetry.budget import LINES
from tests.support.deployment import own_deployment
from tests.support.net import free_port
from tests.verify.section import Part

QUESTIONS = (
    "What is the capital of France?",
    "How many legs does a spider have?",
    "What is the largest planet in our solar system?",
    "Why is the sky blue during the day?",
    "Who wrote Romeo and Juliet?",
    "What do bees make from flowers?",
    "How do airplanes stay up in the air?",
    "What is two plus two?",
    "Can you tell me how to make a cup of tea?",
    "What is the boiling point of water?",
)
ROUNDS = 2
TURNS_A_CALL = 5
UNANSWERED_MS = 15_000.0
ARMS = ("product", "stock pipecat", "tuned pipecat")
READY_S = 120


def run(
    llm_url: str, product_url: str, clips: Sequence[Clip], say: Callable[[str], None]
) -> dict[str, list[TurnResult]]:
    """Every clip `ROUNDS` times on each arm, a few turns a call, the arms taking turns."""
    results: dict[str, list[TurnResult]] = {arm: [] for arm in ARMS}
    with peer(llm_url) as stock, peer(llm_url, "--tuned") as tuned:
        urls = dict(zip(ARMS, (product_url, stock, tuned), strict=True))
        for start in [*range(0, len(clips), TURNS_A_CALL)] * ROUNDS:
            for arm, url in urls.items():
                results[arm] += asyncio.run(_turns(url, clips[start : start + TURNS_A_CALL]))
                say(f"{arm}: {[round(_ms(turn)) for turn in results[arm][-TURNS_A_CALL:]]} ms")
    return results


def table(results: dict[str, list[TurnResult]]) -> str:
    """Markdown: response and lines, p50 and p95, an unanswered turn counted as 15 s."""
    rows = ["| arm | turns | unanswered | response p50 | p95 | max |", "|---|---|---|---|---|---|"]
    for arm, turns in results.items():
        response = [_ms(turn) for turn in turns]
        unanswered = sum(turn.response_ms is None for turn in turns)
        p50, p95 = np.percentile(response, [50, 95])
        rows.append(f"| {arm} | {len(turns)} | {unanswered} | {p50:.0f} | {p95:.0f} | {max(response):.0f} |")
    rows += ["", "| line of the product | p50 ms | p95 ms |", "|---|---|---|"]
    answered = [turn for turn in results["product"] if turn.response_ms is not None]
    for line in LINES:
        p50, p95 = np.percentile([turn.lines_ms[line] for turn in answered], [50, 95])
        rows.append(f"| {line} | {p50:.0f} | {p95:.0f} |")
    return "\n".join(rows)


def _ms(turn: TurnResult) -> float:
    return UNANSWERED_MS if turn.response_ms is None else turn.response_ms


@contextmanager
def peer(llm_url: str, *options: str) -> Iterator[str]:
    """A peer's process, ready."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-m", "loadtests.peers.stock_pipecat", "--port", str(port), "--llm", llm_url, *options],
        cwd=Path(__file__).parents[2],
    )
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError("the peer died; its error stands above")
            try:
                httpx.get(f"{url}/healthz", trust_env=False)
                break
            except httpx.HTTPError:
                time.sleep(0.3)
        yield url
    finally:
        process.terminate()
        process.wait(20)


async def _turns(url: str, clips: Sequence[Clip]) -> list[TurnResult]:
    call = await dial(url, timeout_s=60)
    try:
        return [turn async for turn in converse(call, clips)]
    finally:
        await call.hang_up()


def verify(say: Callable[[str], None]) -> Part:
    """About fifteen minutes. Floor: the product's p50 is below that of the stock pipeline."""
    from cli.talk import speak

    clips = speak(QUESTIONS)
    with own_deployment() as url:
        results = run(f"{url}/v1", url, clips, say)
    medians = {arm: float(np.median([_ms(turn) for turn in turns])) for arm, turns in results.items()}
    short = []
    if medians["product"] >= medians["stock pipecat"]:
        short.append(f"p50 {medians['product']:.0f} ms, the stock pipeline's {medians['stock pipecat']:.0f} ms")
    ratios = ", ".join(f"{medians['product'] / medians[arm]:.2f} of {arm}'s" for arm in ARMS[1:])
    return Part(
        "From the caller's last sound to the first audible sound of the reply, in ms; one caller, the arms "
        f"interleaved; same models, LLM tier, system prompt and caller. The product's p50 is {ratios}. "
        "The budget is 300 ms.\n\n" + table(results),
        short,
    )
