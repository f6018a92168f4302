"""A streamed reply as the voice application takes it: text, out of what Ray's LLM server yields. No vLLM import."""

import json
from collections.abc import Iterator
from typing import Any

from serve_apps.gateway.events import error_of, is_done

Spoken = tuple[str, str | None]
"""A piece of a reply, and why it ended if it did ('stop', 'length')."""


def spoken(reply: Any) -> Iterator[Spoken]:
    """The pieces in what `LLMServer.chat` yields: server-sent events, alone or in lists; errors; other reports."""
    if isinstance(reply, list):
        for item in reply:
            yield from spoken(item)
    elif isinstance(reply, str):
        if (error := error_of(reply)) is not None:
            raise RuntimeError(error.get("message", "the engine's stream broke off"))
        if not is_done(reply):
            yield from _choices(json.loads(reply.removeprefix("data: ")))
    elif (error := getattr(reply, "error", None)) is not None:
        raise RuntimeError(error.message)


def _choices(chunk: dict[str, Any]) -> Iterator[Spoken]:
    for choice in chunk["choices"]:
        text, ended = choice["delta"].get("content") or "", choice.get("finish_reason")
        if text or ended:
            yield text, ended
