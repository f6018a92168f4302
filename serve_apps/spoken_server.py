"""The LLM server's way for the voice application: over a Serve handle, plain data in, text out.

HTTP's way costs a token three more hops (ingress, proxy, client) and its JSON as often, on the cores that the engine
runs on. The request is the same ChatCompletionRequest, and goes the same way from here on.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from ray.llm._internal.serve.core.configs.openai_api_models import ChatCompletionRequest
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.llm._internal.serve.core.server.llm_server import LLMServer
from vllm.platforms import current_platform

from serve_apps.spoken import Spoken, spoken

NICER = 4
"""A CPU engine yields to the ears and the voice beside it by this much: a caller waits for those, in turn, while the
engine's next tokens are ahead of what is being said. (Ray's workers run at 15; 19 has 0.4 of its weight.)"""


class SpokenLLMServer(LLMServer):
    """Ray's server and `converse`."""

    async def start(self) -> None:
        """Start the engine, whose processes inherit this one's priority."""
        if current_platform.is_cpu():
            os.nice(NICER)
        await super().start()  # type: ignore[no-untyped-call]

    async def converse(self, body: dict[str, Any], headers: dict[str, str]) -> AsyncGenerator[Spoken, None]:
        """The reply to a streamed chat completion's `body`. Raises RuntimeError with what the engine said was wrong."""
        replies = await self.chat(ChatCompletionRequest(**body, stream=True), RawRequestInfo(headers=headers))
        async with aclosing(replies):
            async for reply in replies:
                for piece in spoken(reply):
                    yield piece
