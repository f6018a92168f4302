"""What a caller of the LLM tier met, and one question asked."""

import json
import time
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np


@dataclass
class Arm:
    """What the calm tenant met, in ms; `gaps_ms` between the chunks of its replies."""

    ttft_ms: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    cached_tokens: int = 0

    @property
    def p95_ms(self) -> float:
        return float(np.percentile(self.ttft_ms, 95))

    @property
    def cached_share(self) -> float:
        return self.cached_tokens / max(1, self.prompt_tokens)


def body(model: str, text: str, max_tokens: int, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    usage = {"include_usage": True}
    return {
        "model": model,
        "messages": messages,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": usage,
    } | fields


async def ask(client: httpx.AsyncClient, asked: dict[str, Any], header: dict[str, str], arm: Arm) -> dict[str, Any]:
    """One streamed reply; returns its clocks."""
    sent_s, last_s, clocks = time.perf_counter(), None, {}
    async with client.stream("POST", "/v1/chat/completions", json=asked, headers=header | {"x-clocks": "1"}) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            now_s, chunk = time.perf_counter(), json.loads(line[6:])
            clocks = chunk.get("clocks") or clocks
            if usage := chunk.get("usage"):
                arm.prompt_tokens += usage["prompt_tokens"]
                arm.cached_tokens += (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
            if any((choice.get("delta") or {}).get("content") for choice in chunk["choices"]):
                if last_s is None:
                    arm.ttft_ms.append((now_s - sent_s) * 1000)
                else:
                    arm.gaps_ms.append((now_s - last_s) * 1000)
                last_s = now_s
    return clocks
