"""The voice application's LLM: the tier of the same deployment, over a Serve handle, behind the gateway's admission."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence

from ray import serve

from configs.deployment import Deployment
from configs.schema import load
from configs.tenants import TenantsFiles
from planning.profile import Profile
from serve_apps.gateway.admission import Admission
from serve_apps.gateway.books import Books
from serve_apps.gateway.charges import CHARS_PER_TOKEN, TOKENS_PER_MESSAGE, Size
from voice.history import Message
from voice.llm import LlmError, Piece

TENANT = "voice"
"""The callers' tenant in tenants.yaml."""


class ServeChat:
    """A ChatModel (voice/llm.py) on `SpokenLLMServer.converse` of one deployment. Raises InputError."""

    def __init__(self, deployment: Deployment, app: str, server: str) -> None:
        handle = serve.get_deployment_handle(server, app_name=app)
        self._handle = handle.options(stream=True, method_name="converse")
        persona, llm, gateway = deployment.voice.persona, deployment.llm, deployment.gateway
        self._tenants = TenantsFiles(gateway.tenants)
        profile = load(Profile, gateway.profile)
        seats = float(llm.seats)
        kv_tokens = llm.replicas * profile.kv_capacity_bytes / profile.kv_bytes_per_token
        self._admission = Admission(
            Books(gateway.store_url()), profile, lambda: (seats, kv_tokens, float(llm.replicas)), gateway.max_queue_s
        )
        self._max_tokens = persona.max_reply_tokens
        self._body = {"model": llm.model, "temperature": persona.temperature}
        self._patience_s = deployment.voice.language.first_token_timeout_s
        self._process = uuid.uuid4().hex[:12]

    def reply(self, messages: Sequence[Message], request_id: str) -> AsyncIterator[Piece]:
        """See ChatModel."""
        return self._converse(messages, request_id, self._max_tokens)

    async def prefill(self, messages: Sequence[Message], request_id: str) -> None:
        """See ChatModel."""
        async for _ in self._converse(messages, request_id, 1):
            pass

    async def _converse(self, messages: Sequence[Message], request_id: str, max_tokens: int) -> AsyncIterator[Piece]:
        request_id = f"{self._process}-{request_id}"
        tenant = self._tenants.current().named(TENANT)
        prompt_tokens = sum(TOKENS_PER_MESSAGE + len(message["content"]) / CHARS_PER_TOKEN for message in messages)
        body = self._body | {
            "max_tokens": max_tokens,
            "messages": [dict(message) for message in messages],
            "request_id": request_id,
            "priority": tenant.priority,
            "cache_salt": tenant.cache_salt,
        }
        admitted = response = None
        try:
            async with asyncio.timeout(self._patience_s):
                admitted = await self._admission.enter(request_id, tenant, Size(prompt_tokens, max_tokens))
            response = self._handle.remote(body, {"x-request-id": request_id} | admitted.headers())
            admitted.sent = True
            pieces: AsyncIterator[tuple[str, str | None]] = aiter(response)  # type: ignore[arg-type]
            while True:
                async with asyncio.timeout(self._patience_s):
                    text, ended = await anext(pieces)
                yield Piece(text, cut=ended == "length")
        except StopAsyncIteration:
            return
        except Exception as error:  # whatever Serve or the admission raises, the answer broke off
            raise LlmError(f"{type(error).__name__}: {error}") from error
        finally:
            if response is not None:
                response.cancel()  # type: ignore[no-untyped-call]  # of no effect behind the end
            if admitted is not None:
                await self._admission.leave(admitted)
