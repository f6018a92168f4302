"""The pipeline's LLM: a stream of text for a list of messages. Cancelling the iteration stops the engine."""

import os
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from openai import AsyncOpenAI, AsyncStream, Timeout
from openai.types.chat import ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall

from configs.voice import VoiceConfig
from voice.history import Message


class LlmError(RuntimeError):
    """The LLM gave no answer, or broke off. A retry may help."""


@dataclass(frozen=True)
class ToolCall:
    """A function that the LLM wants called. `arguments` are JSON, as the model wrote it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class Piece:
    """A piece of a reply. `cut` marks the last one of a reply that ran into its token limit; `calls` stand in the last
    one of a reply that needs them made."""

    text: str
    cut: bool = False
    calls: tuple[ToolCall, ...] = ()


class ReplyModel(Protocol):
    """What an answer asks of an LLM."""

    def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        """The reply's pieces as they are made. Raises LlmError."""
        ...


class ChatModel(ReplyModel, Protocol):
    """What the pipeline asks of one."""

    async def prefill(self, messages: Sequence[Message], request_id: str) -> None:
        """Have the engine take in messages that the next request begins with. Raises LlmError."""
        ...


class OpenAiChat:
    """An OpenAI-compatible server over HTTP; FIRSTCLAUSE_LLM_API_KEY holds its key, if it asks for one."""

    def __init__(self, base_url: str, model: str, config: VoiceConfig, tools: Sequence[dict[str, Any]] = ()) -> None:
        self._client = AsyncOpenAI(
            base_url=base_url,
            api_key=os.environ.get("FIRSTCLAUSE_LLM_API_KEY", "local"),
            max_retries=0,
            timeout=Timeout(config.language.first_token_timeout_s, connect=2.0),
        )
        self._model, self._persona = model, config.persona
        self._tools: dict[str, Any] = {"tools": list(tools)} if tools else {}

    async def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        """See ChatModel."""
        try:
            # type: Message has the role and content that each of the client's message types has
            stream: AsyncStream[ChatCompletionChunk] = await self._client.chat.completions.create(  # type: ignore[assignment]
                model=self._model,
                messages=messages,  # type: ignore[arg-type]
                max_tokens=self._persona.max_reply_tokens,
                temperature=self._persona.temperature,
                stream=True,
                extra_headers={"X-Request-Id": request_id},
                **self._tools,
            )
            calls: dict[int, ToolCall] = {}
            async with stream:
                async for chunk in stream:
                    for choice in chunk.choices:
                        text = choice.delta.content or ""
                        for delta in choice.delta.tool_calls or ():
                            calls[delta.index] = _grown(calls.get(delta.index), delta)
                        if text or choice.finish_reason == "length":
                            yield Piece(text, cut=choice.finish_reason == "length")
            if calls:
                yield Piece("", calls=tuple(calls.values()))
        except Exception as error:  # whatever the transport under the client raises, the answer broke off
            raise LlmError(f"{type(error).__name__}: {error}") from error

    async def prefill(self, messages: Sequence[Message], request_id: str) -> None:
        """See ChatModel."""
        try:
            await self._client.chat.completions.create(
                model=self._model,
                messages=messages,  # type: ignore[arg-type]
                max_tokens=1,
                extra_headers={"X-Request-Id": request_id},
                **self._tools,
            )
        except Exception as error:
            raise LlmError(f"{type(error).__name__}: {error}") from error

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _grown(call: ToolCall | None, delta: ChoiceDeltaToolCall) -> ToolCall:
    """A call with what the next chunk says of it: its name comes whole, its arguments in pieces."""
    function = delta.function
    name, arguments = (function.name or "", function.arguments or "") if function else ("", "")
    if call is None:
        return ToolCall(delta.id or "", name, arguments)
    return ToolCall(call.id, call.name + name, call.arguments + arguments)
