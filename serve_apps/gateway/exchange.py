"""One request and its reply: to a replica, back piece by piece, and given back to the admission however it ends."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import HTTPException
from ray.exceptions import RayActorError
from ray.llm._internal.common.errors import VLLM_CLIENT_ERRORS
from ray.llm._internal.serve.core.configs.openai_api_models import ErrorResponse
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from planning.policies.route import Overloaded
from serve_apps.gateway.admission import Admission, Admitted
from serve_apps.gateway.errors import ApiError, BadRequest, InternalError, Unavailable, UnknownModel, from_engine
from serve_apps.gateway.events import DONE, error_of, has_content, is_done
from serve_apps.gateway.report import Prefilled, Report
from telemetry.clocks import Clocks

RETRY_AFTER_S = 5.0
ASSIGN_S = 60.0
"""Replicas that are there take a request within milliseconds, on a machine that is not drowning."""
RECHECK_S = 1.0
LOST = (RayActorError, ReplicaUnavailableError, DeploymentUnavailableError)


class Exchange:
    """`begin`, then `pieces` or `whole`; `end` in any case."""

    def __init__(self, admission: Admission, admitted: Admitted, model: str, state: dict[str, Any]) -> None:
        self._admission, self._admitted, self._state = admission, admitted, state
        self.model, self.tenant = model, admitted.tenant
        self.clocks = Clocks(gateway_queue_ms=admitted.queue_ms)
        self.wants_clocks = False
        self.report: Report | None = None
        self._replies: Any = None
        self._first: Any = None

    async def begin(self, method: Any, *arguments: Any) -> None:
        """Send it and wait for the first of its reply. Raises ApiError."""
        sent_s = time.monotonic()
        try:
            self._replies = method.remote(*arguments)
            async with asyncio.timeout(ASSIGN_S):
                await self._replies._fetch_future_result_async()
            self._admitted.sent = True
            self.clocks.route_ms = (time.monotonic() - sent_s) * 1000
            self._first = await self._next()
        except TimeoutError:
            raise Unavailable("No replica takes the request now.", RETRY_AFTER_S) from None
        except Exception as error:
            raise self._refusal(error) from error
        first = self._first[0] if isinstance(self._first, list) else self._first
        if isinstance(first, ErrorResponse):
            raise from_engine(first.error.message, first.error.code, self.model, first.error.param)
        if isinstance(first, str) and (broken := error_of(first)) is not None:
            raise from_engine(broken.get("message", ""), broken.get("code", 500), self.model, broken.get("param"))

    async def whole(self) -> Any:
        """An unstreamed reply, with the report behind it. Raises ApiError."""
        reply = self._first
        self._written()
        try:
            await self._next()
        except Exception as error:
            raise self._refusal(error) from error
        return reply

    async def pieces(self, deadline_s: float) -> AsyncIterator[bytes]:
        """A streamed reply as it comes. An error is its last event; [DONE] stands only behind a whole reply."""
        begun = done = False
        checked_s = time.monotonic()
        item = self._first
        try:
            async with asyncio.timeout(deadline_s):
                while item is not None:
                    written: list[str] = []
                    for event in item if isinstance(item, list) else [item]:
                        if (broken := error_of(event)) is not None:
                            error = from_engine(broken.get("message", ""), broken.get("code", 500), self.model)
                            yield "".join(written).encode() + error.event()
                            return
                        if is_done(event):
                            done = True
                            continue
                        if not begun and has_content(event):
                            begun = True
                            self._written()
                        written.append(event)
                    if written:
                        yield "".join(written).encode()
                    if (now_s := time.monotonic()) - checked_s > RECHECK_S:
                        checked_s = now_s
                        self._state["recheck"]()
                    item = await self._next()
        except TimeoutError:
            yield ApiError(504, f"The reply took over {deadline_s:g} s.", "server_error", "timeout").event()
            return
        except Exception as error:  # noqa: BLE001  whatever it was, the reader is told that this was not the end
            yield self._refusal(error).event()
            return
        if not done:
            yield InternalError().event()
            return
        yield (self._clocks_event() if self.wants_clocks else b"") + f"{DONE}\n\n".encode()

    async def end(self) -> None:
        """Stop what still runs, and give the place back."""
        if self._replies is not None and self.report is None:
            self._replies.cancel()
        used_rt = None
        if self.report is not None:
            self.clocks.update(self.report.clocks)
            used_rt = self.report.used_rt
            usage = self.report.usage
            self._state["noted"] = {
                "model": self.model, "prompt_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens,
                "cached_tokens": usage.prompt_tokens_details.cached_tokens, **self.clocks.as_json(),
            }  # fmt: skip
        await self._admission.leave(self._admitted, used_rt)

    async def _next(self) -> Any:
        """The next item of the reply; None behind the last, when the report has come."""
        try:
            item = await self._replies.__anext__()
        except StopAsyncIteration:
            return None
        if isinstance(item, Report):
            self.report = item
            self.clocks.update(item.clocks)
            return await self._next()
        self._admission.prefilled(self._admitted)
        return await self._next() if isinstance(item, Prefilled) else item

    def _written(self) -> None:
        self.clocks.server_ttft_ms = (time.monotonic() - self._state["read_s"]) * 1000

    def _clocks_event(self) -> bytes:
        chunk = {
            "id": f"chatcmpl-{self._admitted.request_id}", "object": "chat.completion.chunk",
            "created": int(time.time()), "model": self.model, "choices": [], "clocks": self.clocks.as_json(),
        }  # fmt: skip
        return f"data: {json.dumps(chunk)}\n\n".encode()

    def _refusal(self, error: Exception) -> ApiError:
        if isinstance(error, ApiError):
            return error
        if isinstance(error, LOST):
            self._admitted.sent = False  # its meter went with it, and nobody got an answer
            return Unavailable("The replica that had the request was lost.", RETRY_AFTER_S)
        if isinstance(error, Overloaded):
            return Unavailable(str(error), error.wait_ms / 1000, "overloaded")
        if isinstance(error, BackPressureError):
            return Unavailable("Too many requests wait.", 1, "overloaded")
        if isinstance(error, HTTPException) and error.status_code == 404:
            return UnknownModel(self.model)
        if isinstance(error, VLLM_CLIENT_ERRORS):
            return BadRequest(str(error).splitlines()[-1])
        return InternalError()


class EventStream(Response):
    """Server-sent events. The exchange ends with it, also when nobody reads to the end."""

    media_type = "text/event-stream"

    def __init__(self, exchange: Exchange, deadline_s: float, ended: Any) -> None:
        self.status_code, self.background = 200, None
        self._exchange, self._deadline_s, self._ended = exchange, deadline_s, ended
        self.init_headers({"cache-control": "no-store"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for piece in self._exchange.pieces(self._deadline_s):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            await self._ended(self._exchange)
