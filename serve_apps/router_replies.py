"""What a reply tells the router on its way to the reader: that it began, what was cached, how long it was."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

CACHED = re.compile(r'"cached_tokens":\s*(\d+)')
COMPLETION = re.compile(r'"completion_tokens":\s*(\d+)')

Told = Callable[[int | None, int | None], None]
"""Called with (cached prompt tokens, output tokens), each None where the reply does not say."""


def watch(result: Any, loop: asyncio.AbstractEventLoop, began: Callable[[], None], told: Told) -> None:
    """Have `began` called at the first item of a streamed result and `told` with its usage, both on `loop`.

    Serve tells a router when a request ends, not when its first token comes; so the result's own `__anext__` and
    `__next__`, which the handle calls by name, pass each item by here. One that is not streamed is left as it is.
    """
    if not getattr(result, "_is_streaming", False):
        return
    next_of, anext_of, first = result.__next__, result.__anext__, True

    def passing(item: Any) -> Any:
        nonlocal first
        if first:
            first = False
            loop.call_soon_threadsafe(began)
        cached_tokens, output_tokens = usage_of(item)
        if cached_tokens is not None or output_tokens is not None:
            loop.call_soon_threadsafe(told, cached_tokens, output_tokens)
        return item

    async def passing_async() -> Any:
        return passing(await anext_of())

    result.__next__ = lambda: passing(next_of())
    result.__anext__ = passing_async


def usage_of(item: Any) -> tuple[int | None, int | None]:
    """(cached prompt tokens, output tokens) from a piece of a reply: a chunk's text, several, or a whole reply."""
    if isinstance(item, list):
        item = item[-1] if item and isinstance(item[-1], str) and "[DONE]" not in item[-1] else "".join(map(str, item))
    if isinstance(item, str):
        # What a model writes is inside a JSON string, its quotes escaped: it cannot speak for the engine.
        if '"usage"' not in item or '"completion_tokens"' not in item:
            return None, None
        return _number(CACHED, item), _number(COMPLETION, item)
    usage = getattr(item, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    return getattr(details, "cached_tokens", None), getattr(usage, "completion_tokens", None)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None
