"""The measurements against a running deployment, each within one run."""

import asyncio
import itertools
import re
import statistics
import time
from collections.abc import Callable

import httpx

from configs import keys
from configs.gateway import GatewayConfig
from configs.tenants import TenantConfig, TenantsFiles
from serve_apps.gateway.books import Books
from tests.verify.tenants.arm import Arm, ask, body
from tests.verify.tenants.servers import engine_ttft_sum_ms

Say = Callable[[str], None]
FLOODERS = 8
WORDS = tuple("the quick brown fox jumps over the lazy dog and runs into the green forest".split())  # noqa: SIM905


def tenant(name: str) -> dict[str, str]:
    """A new tenant's Authorization header."""
    return {"authorization": f"Bearer {keys.add(TenantsFiles().file, name, TenantConfig())}"}


def compare_clocks(ours: str, bare: str, model: str, pairs: int, say: Say) -> tuple[list[float], list[float]]:
    """client_ttft minus engine_ttft, ms, one caller, the two servers taking turns."""

    async def compare() -> tuple[list[float], list[float]]:
        over: tuple[list[float], list[float]] = ([], [])
        async with (
            httpx.AsyncClient(base_url=ours, timeout=60, trust_env=False) as gateway,
            httpx.AsyncClient(base_url=bare, timeout=60, trust_env=False) as peer,
        ):
            for number in range(-3, pairs):  # the first ones warm both
                asked = body(model, f"Question {number}: what is the capital of France?", 4)
                arm = Arm()
                clocks = await ask(gateway, asked, {}, arm)
                before_ms = engine_ttft_sum_ms(bare)
                other = Arm()
                await ask(peer, asked, {}, other)
                if number >= 0:
                    over[0].append(arm.ttft_ms[0] - clocks["engine_ttft_ms"])
                    over[1].append(other.ttft_ms[0] - (engine_ttft_sum_ms(bare) - before_ms))
        return over

    result = asyncio.run(compare())
    say(
        f"client over engine: gateway {statistics.median(result[0]):.1f} ms, bare {statistics.median(result[1]):.1f} ms"
    )
    return result


def isolate(url: str, model: str, blocks: int, asks: int, say: Say) -> dict[str, Arm]:
    """A calm tenant's questions on four long prefixes of its own, in blocks with and without another's flood."""
    calm, flood = tenant("calm"), tenant("flood")
    prefixes = [" ".join(itertools.islice(itertools.cycle(WORDS[n:] + WORDS[:n]), 600)) for n in range(4)]
    arms = {"without": Arm(), "with": Arm()}
    numbers = itertools.count()

    async def flooding(client: httpx.AsyncClient) -> None:
        while True:
            number = next(numbers)
            text = f"{number} " + " ".join(f"{WORDS[(number + i) % len(WORDS)]}" for i in range(1700))
            await ask(client, body(model, text, 4), flood, Arm())

    async def block(client: httpx.AsyncClient, arm: Arm, first: int) -> None:
        for number in range(first, first + asks):
            await ask(client, body(model, f"{prefixes[number % 4]}. Question {number}?", 8), calm, arm)

    async def all_blocks() -> None:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, timeout=300, trust_env=False, limits=limits) as client:
            await block(client, Arm(), 0)  # the prefixes are cached
            for number in range(blocks):
                for name, arm in arms.items():
                    floods = [asyncio.create_task(flooding(client)) for _ in range(FLOODERS if name == "with" else 0)]
                    if floods:
                        await asyncio.sleep(2)
                    await block(client, arm, 1000 * (number + 1) + (500 if floods else 0))
                    for task in floods:
                        task.cancel()
                    await asyncio.gather(*floods, return_exceptions=True)
                say(
                    f"block {number + 1}: p95 {arms['without'].p95_ms:.0f} ms, {arms['with'].p95_ms:.0f} with the flood"
                )

    asyncio.run(all_blocks())
    return arms


def salts(url: str, model: str) -> tuple[int, int]:
    """Cached tokens of a tenant's own repeated prompt of over 512 tokens, and of another's identical one."""
    one, other = tenant("salt-a"), tenant("salt-b")
    asked = body(model, "Salt and pepper on the table by the window. " * 70, 1)

    async def cached(header: dict[str, str]) -> int:
        arm = Arm()
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            await ask(client, asked, header, arm)
        assert arm.prompt_tokens > 512
        return arm.cached_tokens

    first = asyncio.run(cached(one))
    assert first == 0
    return asyncio.run(cached(one)), asyncio.run(cached(other))


def leave(url: str, model: str, leaves: int) -> list[float]:
    """Milliseconds from a client's leaving until the engine had stopped and its meter had written the line."""
    books, took_ms = Books(GatewayConfig().store_url()), []

    async def start(header: dict[str, str]) -> float:
        async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
            asked = body(model, "Tell a very long story.", 1500, ignore_eos=True)
            async with client.stream("POST", "/v1/chat/completions", json=asked, headers=header) as answer:
                async for _ in answer.aiter_lines():
                    break
        return time.monotonic()

    for number in range(leaves):
        name = f"leaver-{number}"
        left_s = asyncio.run(start(tenant(name)))
        while not books.totals(name) and time.monotonic() < left_s + 30:
            time.sleep(0.005)
        took_ms.append((time.monotonic() - left_s) * 1000)
    books.close()
    return took_ms


def bill(url: str) -> tuple[dict[str, int], dict[str, int]]:
    """Tokens in the books, and by the engine's counters once Ray's agents have heard of them."""
    names = {
        "prompt_tokens": "prompt_tokens",
        "cached_tokens": "prompt_tokens_cached",
        "output_tokens": "generation_tokens",
    }
    books = Books(GatewayConfig().store_url())
    counted: dict[str, int] = {}
    for _ in range(60):
        billed = {name: sum(getattr(total, name) for total in books.totals()) for name in names}
        text = httpx.get(f"{url}/metrics", trust_env=False).text
        counted = {
            ours: int(
                sum(float(v) for v in re.findall(rf"^ray_vllm_{theirs}_total\{{[^}}]*\}} (\S+)", text, re.MULTILINE))
            )
            for ours, theirs in names.items()
        }
        if billed == counted:
            break
        time.sleep(1)
    books.close()
    return billed, counted
