"""The target over HTTP: an OpenAI-compatible server's /v1/completions, with token ids as the prompt."""

import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx

from telemetry.profiler.target import Reply, TargetFailed

TIMEOUT_S = 300.0


class HttpTarget:
    """`url`: the server's base, with or without /v1. vLLM's `ignore_eos` makes the reply as long as was asked for."""

    def __init__(self, client: httpx.AsyncClient, url: str, model: str) -> None:
        self._client, self._base, self._model = client, url.rstrip("/").removesuffix("/v1"), model

    async def complete(self, prompt: Sequence[int], output_tokens: int) -> Reply:
        body = {
            "model": self._model, "prompt": list(prompt), "max_tokens": output_tokens, "ignore_eos": True,
            "temperature": 0, "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        }  # fmt: skip
        sent_s = time.perf_counter()
        reading = Reading()
        try:
            async with self._client.stream("POST", f"{self._base}/v1/completions", json=body) as response:
                if response.status_code != 200:
                    await response.aread()
                    raise TargetFailed(f"{response.request.url} answered {response.status_code}: {response.text[:300]}")
                async for line in response.aiter_lines():
                    if line.startswith("data:"):
                        reading.take(line[5:].strip(), time.perf_counter())
        except httpx.HTTPError as error:
            raise TargetFailed(f"{self._base}: {type(error).__name__} {error}".rstrip()) from error
        return reading.reply(sent_s)

    async def models(self) -> list[str]:
        """The names that the server lists. Raises TargetFailed."""
        try:
            answer = await self._client.get(f"{self._base}/v1/models")
            answer.raise_for_status()
            return [str(model["id"]) for model in answer.json()["data"]]
        except (httpx.HTTPError, ValueError, LookupError, TypeError) as error:
            raise TargetFailed(f"{self._base}/v1/models: {type(error).__name__} {error}".rstrip()) from error

    async def kv_capacity_tokens(self) -> int | None:
        """What the engine says of its KV cache in /metrics; None where that is not served or says nothing."""
        try:
            answer = await self._client.get(f"{self._base}/metrics")
        except httpx.HTTPError:
            return None
        return kv_tokens_in(answer.text) if answer.status_code == 200 else None


@contextlib.asynccontextmanager
async def http_target(url: str, model: str) -> AsyncIterator[HttpTarget]:
    """A target with a connection for every request that is under way."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(timeout=TIMEOUT_S, limits=limits, trust_env=False) as client:
        yield HttpTarget(client, url, model)


class Reading:
    """A stream's events as they come: each chunk's moment and the tokens so far, the usage at the end."""

    def __init__(self) -> None:
        self._at_s: list[float] = []
        self._tokens: list[int] = []
        self._usage: dict[str, Any] = {}
        self._done = False

    def take(self, data: str, at_s: float) -> None:
        """One event's data. Raises TargetFailed for an error or what is no chunk."""
        if data == "[DONE]":
            self._done = True
            return
        try:
            chunk = json.loads(data)
        except ValueError:
            chunk = None
        if not isinstance(chunk, dict) or not isinstance(chunk.get("choices"), list):
            raise TargetFailed(f"no completion chunk: {data[:300]}")
        usage = chunk.get("usage") or {}
        if chunk["choices"]:
            before = self._tokens[-1] if self._tokens else 0
            # A server that counts only at the end sends a token a chunk.
            tokens = int(usage.get("completion_tokens", before + 1))
            if tokens > before:
                self._at_s.append(at_s)
                self._tokens.append(tokens)
        if usage:
            self._usage = usage

    def reply(self, sent_s: float) -> Reply:
        """The whole answer. Raises TargetFailed where it broke off or counted nothing."""
        if not self._done or not self._at_s:
            raise TargetFailed("the stream broke off" if self._at_s else "the stream had no token")
        if "prompt_tokens" not in self._usage:
            raise TargetFailed("the stream had no usage: token counts have to be exact")
        details = self._usage.get("prompt_tokens_details") or {}
        return Reply(
            sent_s, tuple(self._at_s), tuple(self._tokens), int(self._usage["prompt_tokens"]),
            int(details.get("cached_tokens") or 0),
        )  # fmt: skip


def kv_tokens_in(metrics: str) -> int | None:
    """Blocks times block size in vLLM's cache_config_info, under whatever prefix; None where it is not there."""
    found = re.search(r"^\w*vllm[:_]cache_config_info\{([^}]*)\}", metrics, re.MULTILINE)
    if found is None:
        return None
    labels = dict(re.findall(r'(\w+)="([^"]*)"', found.group(1)))
    blocks, size = labels.get("num_gpu_blocks", ""), labels.get("block_size", "")
    return int(blocks) * int(size) if blocks.isdecimal() and size.isdecimal() else None
