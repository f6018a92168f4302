"""The voice application's LLM: the tier of the same deployment, over a Serve handle."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from ray import serve

from configs.deployment import LlmConfig
from configs.voice import VoiceConfig
from voice.history import Message
from voice.llm import LlmError, Piece


class ServeChat:
    """A ChatModel (voice/llm.py) on `SpokenLLMServer.converse` of one deployment."""

    def __init__(self, app: str, deployment: str, llm: LlmConfig, voice: VoiceConfig) -> None:
        handle = serve.get_deployment_handle(deployment, app_name=app)
        self._handle = handle.options(stream=True, method_name="converse")
        self._body = {
            "model": llm.model,
            "max_tokens": voice.persona.max_reply_tokens,
            "temperature": voice.persona.temperature,
        }
        self._patience_s = voice.language.first_token_timeout_s

    async def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        """See ChatModel."""
        body = self._body | {"messages": [dict(message) for message in messages], "request_id": request_id}
        response: Any = self._handle.remote(body, {"x-request-id": request_id})
        pieces = aiter(response)
        try:
            while True:
                async with asyncio.timeout(self._patience_s):
                    text, ended = await anext(pieces)
                yield Piece(text, cut=ended == "length")
        except StopAsyncIteration:
            return
        except Exception as error:  # whatever Serve raises, the answer broke off
            raise LlmError(f"{type(error).__name__}: {error}") from error
        finally:
            response.cancel()  # of no effect behind the end
