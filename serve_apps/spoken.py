"""A streamed reply as the voice application takes it: text, out of what Ray's LLM server yields. No vLLM import."""

import json
from collections.abc import Iterator
from typing import Any

Spoken = tuple[str, str | None]
"""A piece of a reply, and why it ended if it did ('stop', 'length')."""


def spoken(reply: Any) -> Iterator[Spoken]:
    """The pieces in what `LLMServer.chat` yields: server-sent events, alone or in lists; errors; other reports."""
    if isinstance(reply, list):
        for item in reply:
            yield from spoken(item)
    elif isinstance(reply, str):
        for line in reply.splitlines():
            if line.startswith("data: ") and line != "data: [DONE]":
                yield from _choices(json.loads(line.removeprefix("data: ")))
    elif (error := getattr(reply, "error", None)) is not None:
        raise RuntimeError(error.message)


def _choices(chunk: dict[str, Any]) -> Iterator[Spoken]:
    if "error" in chunk:
        raise RuntimeError(chunk["error"]["message"])
    for choice in chunk["choices"]:
        text, ended = choice["delta"].get("content") or "", choice.get("finish_reason")
        if text or ended:
            yield text, ended
