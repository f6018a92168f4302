"""The LLM server's way for the voice application: over a Serve handle, plain data in, text out.

HTTP's way costs a token three more hops (ingress, proxy, client) and its JSON as often, on the cores that the engine
runs on. The request is the same ChatCompletionRequest, and goes the same way from here on.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ray.llm._internal.serve.core.configs.openai_api_models import ChatCompletionRequest
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.llm._internal.serve.core.server.llm_server import LLMServer

from serve_apps.spoken import Spoken, spoken


class SpokenLLMServer(LLMServer):
    """Ray's server and `converse`."""

    async def converse(self, body: dict[str, Any], headers: dict[str, str]) -> AsyncGenerator[Spoken, None]:
        """The reply to a streamed chat completion's `body`. Raises RuntimeError with what the engine said was wrong."""
        replies = await self.chat(ChatCompletionRequest(**body, stream=True), RawRequestInfo(headers=headers))
        async with aclosing(replies):
            async for reply in replies:
                for piece in spoken(reply):
                    yield piece
