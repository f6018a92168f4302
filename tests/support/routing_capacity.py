"""How many requests a second two replicas serve when every prefix is cached: what the routers' loads are set by."""

import asyncio
import time

import httpx
import numpy as np

from loadtests.llm_plan import words
from loadtests.routing import Sizes
from loadtests.run import first_model

CALLERS = 8


def served_per_s(url: str, sizes: Sizes, seconds: float = 20.0) -> float:
    """Requests a second of a closed loop of CALLERS over both replicas. Raises httpx.HTTPError."""
    return asyncio.run(_closed_loop(url, first_model(url), sizes, seconds))


async def _closed_loop(url: str, model: str, sizes: Sizes, seconds: float) -> float:
    rng = np.random.default_rng(0)
    system = "capacity " + words(sizes.prefix, rng)
    counted = 0
    async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as client:

        async def ask() -> None:
            body = {
                "model": model,
                "messages": [
                    {"role": "system", "content": system},
                    {"role": "user", "content": words(sizes.suffix, rng)},
                ],
                "max_tokens": sizes.output,
                "ignore_eos": True,
                "user": "power-of-two",
            }
            (await client.post("/v1/chat/completions", json=body)).raise_for_status()

        async def caller(until: float) -> None:
            nonlocal counted
            while time.monotonic() < until:
                await ask()
                counted += time.monotonic() < until

        await asyncio.gather(*(ask() for _ in range(2 * CALLERS)))  # both have the prefix now
        await asyncio.gather(*(caller(time.monotonic() + seconds) for _ in range(CALLERS)))
    return counted / seconds
