"""A request as the router sees it: how many tokens, and the keys of what it may have in common with others.

The tokens are the engine's own: the model's tokenizer and chat template. They load in the background the first time
that there is a choice between replicas; until then, and for a request that no template renders, the length is
estimated from the characters and the request has no key. A request is hostile: nothing in it raises.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from planning.policies.prefix import Chain, prefix_keys

logger = logging.getLogger("ray.serve")

INLINE_CHARACTERS = 4000
"""Up to this a prompt is tokenised where it is, in about a millisecond; beyond, on a thread."""
CHARACTERS_PER_TOKEN = 4
LIMITS = ("max_completion_tokens", "max_tokens")
MOST_CHARACTERS_PER_TOKEN = 16
"""What is beyond the context at this rate is not looked at."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the router decides by. `output_limit` is the request's own, None where it set none."""

    chain: Chain
    tokens: int
    priority: int
    output_limit: int | None


class Prompts:
    """Reads requests to one model: its files at `path`, blocks of `block_tokens`, at most `context_tokens` a prompt."""

    def __init__(self, model: str, path: str | None, block_tokens: int, context_tokens: int) -> None:
        self._model, self._path, self._block_tokens = model, path, block_tokens
        self._most_characters = context_tokens * MOST_CHARACTERS_PER_TOKEN
        self._context_tokens = context_tokens
        self._tokenizer: Any = None

    def load(self) -> None:
        """Load the tokenizer on a thread of its own."""
        if self._path is not None:
            threading.Thread(target=self._load, name="tokenizer", daemon=True).start()

    def _load(self) -> None:
        from transformers import AutoTokenizer

        try:
            tokenizer = AutoTokenizer.from_pretrained(self._path, local_files_only=True)
            tokenizer.encode("a")  # the first call is slow
            self._tokenizer = tokenizer
        except Exception as error:  # noqa: BLE001 - routing goes on without keys
            logger.warning("no tokenizer for %s: routing by load alone (%s)", self._model, error)

    async def read(self, arguments: Iterable[Any], adapter: str, keys: bool = True) -> Prompt:
        """The prompt of a call to the model's server with these arguments. Without `keys` only its size."""
        body = next((a for a in arguments if _get(a, "messages") is not None or _get(a, "prompt") is not None), None)
        if body is None:
            characters = sum(_characters(_get(a, "input") or _get(a, "text") or "") for a in arguments)
            return Prompt((), characters // CHARACTERS_PER_TOKEN + 1, 0, 0)
        tokens: list[int] | None = None
        messages = _get(body, "messages")
        asked = _get(body, "prompt") if messages is None else None
        several = 1
        if isinstance(asked, list) and asked and isinstance(asked[0], str | list):
            asked, several = asked[0], len(asked)  # prompts of one request go to one replica: by the first
        if isinstance(asked, list) and all(isinstance(t, int) for t in asked):
            tokens = asked
        characters = 0 if tokens is not None else _characters(messages or asked or "")
        if tokens is None and keys and self._tokenizer is not None and characters <= self._most_characters:
            encode = self._encode_text if isinstance(asked, str) else self._encode_chat
            tokens = await _off_the_loop(characters, encode, asked if isinstance(asked, str) else body)
        length = characters // CHARACTERS_PER_TOKEN if tokens is None else len(tokens)
        return Prompt(
            self._chain(body, adapter, tokens) if keys and tokens else (),
            min(length * several, self._context_tokens * several) + 1,
            _whole(_get(body, "priority")) or 0,
            next((n for name in LIMITS if (n := _whole(_get(body, name))) is not None and n >= 0), None),
        )

    def _chain(self, body: Any, adapter: str, tokens: list[int]) -> Chain:
        salt = _get(body, "cache_salt")
        try:
            return prefix_keys(
                (salt if isinstance(salt, str) else "").encode(errors="replace"),
                adapter or self._model,
                tokens[: self._context_tokens],
                self._block_tokens,
            )
        except (OverflowError, ValueError):  # no token's number
            return ()

    def _encode_text(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text)
        return ids

    def _encode_chat(self, body: Any) -> list[int]:
        messages = [_plain(message) for message in _get(body, "messages")]
        tools = _get(body, "tools")
        text = self._tokenizer.apply_chat_template(
            messages,
            tools=[_plain(tool) for tool in tools] if tools else None,
            tokenize=False,
            add_generation_prompt=True,
            **(_get(body, "chat_template_kwargs") or {}),
        )
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids


async def _off_the_loop(characters: int, encode: Callable[[Any], list[int]], what: Any) -> list[int] | None:
    try:
        return encode(what) if characters <= INLINE_CHARACTERS else await asyncio.to_thread(encode, what)
    except Exception as error:  # noqa: BLE001 - a template may raise anything at what it is given
        logger.debug("a prompt that its template does not render is routed by load: %s", type(error).__name__)
        return None


def _get(of: Any, name: str) -> Any:
    return of.get(name) if isinstance(of, Mapping) else getattr(of, name, None)


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _plain(message: Any) -> dict[str, Any]:
    """A message as templates want it: a mapping, its content one text."""
    plain = dict(message) if isinstance(message, Mapping) else dict(message.model_dump(exclude_none=True))
    content = plain.get("content")
    if content is not None and not isinstance(content, str):
        plain["content"] = "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return plain


def _characters(of: Any) -> int:
    """Characters of all texts in a request's part, however deep; numbers count as a token each."""
    total, left = 0, [of]
    while left:
        part = left.pop()
        if isinstance(part, str):
            total += len(part)
        elif isinstance(part, Mapping):
            left.extend(part.values())
        elif isinstance(part, int):
            total += CHARACTERS_PER_TOKEN
        elif isinstance(part, list | tuple):  # no other iterable: one that can be read once is the engine's to read
            left.extend(part)
        elif hasattr(part, "model_dump"):
            left.extend(part.model_dump(exclude_none=True).values())
    return total
