"""Where a batch's rows are answered: the LLM tier of the same deployment, over a Serve handle, behind every caller.

No HTTP and no admission on the way: how many rows may be in flight is the harvest's to say. What a row used is metered
by the engine under its tenant's name.
"""

import asyncio
import uuid
from typing import Any

from pydantic import ValidationError
from ray import serve
from ray.exceptions import RayActorError, RayError
from ray.llm._internal.common.errors import VLLM_CLIENT_ERRORS
from ray.llm._internal.serve.core.configs.openai_api_models import (
    ChatCompletionRequest,
    CompletionRequest,
    ErrorResponse,
)
from ray.llm._internal.serve.core.ingress.utils import _sanitize_chat_completion_request
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.serve.exceptions import RayServeException

from batch.engine import Answer, Broken, Refused, judge
from configs.tenants import cache_salt
from planning.policies.route import Overloaded
from serve_apps.batch_tier import ServeTier
from serve_apps.gateway.admission import account_header
from serve_apps.gateway.errors import ApiError, BadRequest, from_engine
from serve_apps.gateway.ingress import STRIPPED, bad_body
from serve_apps.gateway.report import Report

REQUESTS: dict[str, tuple[str, Any]] = {
    "/v1/chat/completions": ("chat", ChatCompletionRequest),
    "/v1/completions": ("completions", CompletionRequest),
}


class ServeEngine:
    """batch.engine.Engine on the LLM servers."""

    def __init__(self, tier: ServeTier, tenant: str) -> None:
        self._tier, self._tenant = tier, tenant
        self._handle = serve.get_deployment_handle(tier.server, app_name=tier.app).options(stream=True)

    async def answer(self, endpoint: str, body: dict[str, Any]) -> Answer:
        method, kind = REQUESTS[endpoint]
        request_id = uuid.uuid4().hex
        try:
            request = kind.model_validate({key: value for key, value in body.items() if key not in STRIPPED})
        except ValidationError as error:
            return _refused(bad_body(error), request_id)  # type: ignore[arg-type]  # has the same errors()
        request.request_id, request.priority = request_id, self._tier.priority
        request.cache_salt = cache_salt(self._tenant)
        if method == "chat":
            _sanitize_chat_completion_request(request)
        info = RawRequestInfo({"x-request-id": request_id} | account_header(self._tenant, "batch"))
        replies = getattr(self._handle, method).remote(request, info)
        try:
            async with asyncio.timeout(self._tier.timeout_s):
                return await self._read(replies, request_id)
        except TimeoutError as error:
            raise Broken(f"no answer within {self._tier.timeout_s:g} s") from error
        except VLLM_CLIENT_ERRORS as error:
            return _refused(BadRequest(str(error).splitlines()[-1]), request_id)
        except Overloaded as error:
            raise Refused(str(error), error.wait_ms / 1000) from error
        except (RayServeException, RayActorError) as error:
            raise Refused(f"no replica has it: {type(error).__name__}") from error
        except RayError as error:
            raise Broken(f"{type(error).__name__}: {str(error).splitlines()[-1][:200]}") from error
        finally:
            replies.cancel()  # of no effect behind the end

    async def _read(self, replies: Any, request_id: str) -> Answer:
        """The reply in front of the engine's report."""
        reply: Any = None
        async for item in replies:
            if not isinstance(item, Report):
                reply = item[0] if isinstance(item, list) else item
        if isinstance(reply, ErrorResponse):
            error = from_engine(reply.error.message, reply.error.code, self._tier.model, reply.error.param)
            return judge(error.status, error.body(), error.headers())
        if reply is None:
            raise Broken("the engine's stream ended without an answer")
        return judge(200, reply.model_dump(mode="json"), {"x-request-id": request_id})

    async def close(self) -> None:
        pass


def _refused(error: ApiError, request_id: str) -> Answer:
    return Answer(error.status, error.body(), request_id)
