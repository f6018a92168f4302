"""The gateway in real Ray Serve while replicas are lost, replaced and scaled: no stream is cut unseen."""

import asyncio
import json
import os
import signal
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from configs.deployment import load_deployment
from configs.schema import load
from loadtests.ports import free_port
from planning.profile import Profile
from tests.support.own_ray import own_ray

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[3]
WORDS = 60


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Called with a version and options of the stand-ins, deploys them; returns the base URL."""
    port = free_port()
    deployment = load_deployment()
    profile = load(Profile, deployment.gateway.profile)
    with own_ray({"FIRSTCLAUSE_CACHE": str(tmp_path_factory.mktemp("cache"))}):
        with warnings.catch_warnings(action="ignore"):  # vLLM's own, as it is imported
            from ray import serve

            from tests.support.gateway_stand_in import application

        serve.start(http_options={"host": "127.0.0.1", "port": port})

        def deploy(version: str, **options: Any) -> str:
            with warnings.catch_warnings(action="ignore"):
                serve.run(application(deployment, profile, version, **options), route_prefix="/v1")
            return f"http://127.0.0.1:{port}"

        yield deploy


@asynccontextmanager
async def streaming(url: str, words: int = WORDS) -> AsyncIterator[AsyncIterator[str]]:
    body = {"model": "stand-in", "messages": [{"role": "user", "content": "go"}], "max_tokens": words, "stream": True}
    async with (
        httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as client,
        client.stream("POST", "/v1/chat/completions", json=body) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        yield (line async for line in answer.aiter_lines() if line)


def said(line: str) -> list[str]:
    """Version, process and number of a word."""
    words: str = json.loads(line.removeprefix("data: "))["choices"][0]["delta"]["content"]
    return words.strip().split("/")


async def test_a_lost_replica_ends_its_stream_with_an_error_event_and_another_is_found(
    serving: Callable[..., str],
) -> None:
    url = await asyncio.to_thread(serving, "lost")
    async with streaming(url) as lines:
        _, pid, _ = said(await anext(lines))
        os.kill(int(pid), signal.SIGKILL)
        *_, end = [line async for line in lines]
    assert json.loads(end.removeprefix("data: "))["error"]["code"] == "unavailable"
    body = {"model": "stand-in", "messages": [{"role": "user", "content": "go"}], "max_tokens": 1, "stream": True}
    async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as client:
        for _ in range(200):
            answer = await client.post("/v1/chat/completions", json=body)
            if answer.status_code == 200 and "[DONE]" in answer.text:
                return
            assert (answer.status_code == 503 and "retry-after" in answer.headers) or "unavailable" in answer.text
            await asyncio.sleep(0.5)
    pytest.fail("no replica came back")


async def test_a_rollout_cuts_no_stream(serving: Callable[..., str]) -> None:
    url = await asyncio.to_thread(serving, "old")
    async with streaming(url) as lines:
        first = said(await anext(lines))
        rollout = asyncio.create_task(asyncio.to_thread(serving, "new"))
        rest = [line async for line in lines]
        await rollout
    assert rest[-1] == "data: [DONE]" and [said(line)[0] for line in rest[:-1]] == ["old"] * (WORDS - 1)
    assert first[0] == "old"
    async with streaming(url, 1) as lines:
        assert said(await anext(lines))[0] == "new"


async def test_a_scale_down_cuts_no_stream(serving: Callable[..., str]) -> None:
    url = await asyncio.to_thread(serving, "scaled", num_replicas=2)
    replicas, streams = set(), []
    async with AsyncExitStack() as stack:
        while len(replicas) < 2:
            assert len(streams) < 20, "one replica takes every stream"
            streams.append(await stack.enter_async_context(streaming(url, 300)))
            replicas.add(said(await anext(streams[-1]))[1])
        down = asyncio.create_task(asyncio.to_thread(serving, "scaled", num_replicas=1))
        ends = await asyncio.gather(*(last(lines) for lines in streams))
        await down
    assert ends == ["data: [DONE]"] * len(streams)


async def last(lines: AsyncIterator[str]) -> str:
    return [line async for line in lines][-1]
