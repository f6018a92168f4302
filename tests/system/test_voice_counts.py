"""What the voice application counts stands on /metrics; the comparison with a peer runs on the real deployment."""

import asyncio
import json
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from configs.gateway import GatewayConfig
from loadtests.call import dial
from loadtests.wav import Clip
from serve_apps.gateway.books import Books, Total
from tests.support.calls import is_type
from tests.support.cli import run_firstclause

pytestmark = pytest.mark.system

PATIENCE_S = 60
TENANT = "voice"
"""The callers' in tenants.yaml."""


def counted(url: str) -> dict[str, float]:
    """The voice application's counters by name, all replicas' together."""
    page = httpx.get(f"{url}/metrics", timeout=20, trust_env=False).text
    return {
        family.name.removeprefix("ray_firstclause_voice_"): sum(sample.value for sample in family.samples)
        for family in text_string_to_metric_families(page)
        if family.name.startswith("ray_firstclause_voice_")
    }


def test_a_turns_answers_and_tokens_are_counted(deployment: str) -> None:
    before = counted(deployment)
    done = run_firstclause("talk", "--say", "What is the capital of France?", "--url", deployment, "--json")
    assert done.returncode == 0, done.stderr
    deadline = time.monotonic() + PATIENCE_S
    while True:  # Ray's agents hear of the counters every few seconds, not of all at once
        now = counted(deployment)
        more = {name: number - before.get(name, 0) for name, number in now.items()}
        kept = more.get("answers_kept", 0)
        if (
            more.get("tokens_kept", 0) >= kept >= 1
            and min(more.get("answers_made", 0), more.get("llm_calls", 0)) >= kept
        ):
            break
        assert time.monotonic() < deadline, more
        time.sleep(0.5)


def test_a_comparison_with_stock_pipecat(deployment: str, tmp_path: Path) -> None:
    done = run_firstclause(
        "loadtest", "voice", "--peer", "stock-pipecat", "--turns", "1", "--url", deployment,
        "--out", str(tmp_path / "out"), "--json", timeout_s=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["callers"]["1"]
    assert set(found) == {"product", "peer", "tuned_peer"}
    assert found["product"]["turns"] == 1
    assert found["product"]["llm_calls_per_turn"] >= 1
    for figures in found.values():
        assert figures["response_ms"]["p50"] > 0
        assert figures["discarded"] == {}


async def test_a_caller_who_hangs_up_stops_the_engine(deployment: str, say: Callable[[str], Clip]) -> None:
    """Over the application's own way to the engine; what was generated is the engine's own count."""
    tokens = [
        await answered(deployment, say("Tell me a long story about a dog."), to_the_end) for to_the_end in (True, False)
    ]
    assert tokens[1] < tokens[0] / 2, tokens


async def answered(url: str, question: Clip, to_the_end: bool) -> int:
    """The output tokens of one answer that was heard out, or whose caller hung up at its first sound."""
    books = Books(GatewayConfig().store_url())
    try:
        before = books.totals(TENANT)
        call = await dial(url)
        try:
            await call.wait_for(is_type("bot-stopped-speaking"), PATIENCE_S)  # the greeting
            since = len(call.events)
            await call.say(question)
            last = "bot-stopped-speaking" if to_the_end else "bot-started-speaking"
            assert await call.wait_for(is_type(last), PATIENCE_S, since) is not None, call.events
        finally:
            await call.hang_up()
        return await settled(books, before)
    finally:
        books.close()


async def settled(books: Books, before: list[Total]) -> int:
    """What the callers' tenant was metered beyond `before`, once it stands still."""
    deadline, last = time.monotonic() + PATIENCE_S, (0, 0)
    while time.monotonic() < deadline:
        await asyncio.sleep(2)
        [now] = books.totals(TENANT)
        then = before[0] if before else None
        found = now.requests - (then.requests if then else 0), now.output_tokens - (then.output_tokens if then else 0)
        if found[0] and found == last:
            return found[1]
        last = found
    raise AssertionError(f"never settled: {last}")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--callers", "1,0"], "--callers"),
        (["--callers", "two"], "--callers"),
        (["--gate", "x.yaml"], "--gate does not go with --peer"),
        (["--url", "http://192.0.2.1"], "--allow-remote"),
        (["--url", "http://127.0.0.1:9"], "nothing answers"),
    ],
)
def test_a_comparison_that_cannot_be_made(options: list[str], problem: str) -> None:
    done = run_firstclause("loadtest", "voice", "--peer", "stock-pipecat", *options)
    assert done.returncode == 2
    assert problem in done.stderr
