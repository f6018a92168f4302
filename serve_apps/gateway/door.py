"""The gateway's ASGI door: what is decided from a request's head, and its body's size, before anything reads it."""

import json
import logging
import re
import time
import uuid
from typing import Any

from ray.util.metrics import Counter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from configs.gateway import GatewayConfig
from configs.tenants import Tenant, TenantsFiles, Unauthorized
from serve_apps.gateway.errors import ApiError, BodyTooLarge, EncodingUnknown, InternalError, InvalidKey

logger = logging.getLogger("ray.serve")

CLIENTS_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")
OPEN_PATHS = ("/openapi.json", "/docs")


class Door:
    """Sets in the request's state: request_id (ours, unique), tenant, read_s (when the body had been read), recheck().

    recheck() raises InvalidKey once the key was revoked. A client's X-Request-Id is logged and is never the engine's:
    two requests with one id do not mix.
    """

    def __init__(self, app: ASGIApp, config: GatewayConfig, is_open: bool) -> None:
        self._app, self._open, self._max_body_bytes = app, is_open, config.max_body_bytes
        self._tenants = TenantsFiles(config.tenants)
        self._answers = Counter(
            "firstclause_answers_total", "Answers by their status; 0: the client left.", ("status",)
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun_s = time.monotonic()
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        state: dict[str, Any] = scope.setdefault("state", {})
        clients_id = headers.get(b"x-request-id", "")
        state["request_id"] = uuid.uuid4().hex
        state["clients_id"] = clients_id if CLIENTS_ID.fullmatch(clients_id) else None
        state["read_s"] = begun_s
        status = 0
        read_bytes = 0

        async def reading() -> Message:
            nonlocal read_bytes
            message = await receive()
            if message["type"] == "http.request":
                read_bytes += len(message.get("body", b""))
                if read_bytes > self._max_body_bytes:
                    raise BodyTooLarge(self._max_body_bytes)
                if not message.get("more_body"):
                    state["read_s"] = time.monotonic()
            return message

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            self._check(scope, headers, state)
            await self._app(scope, reading, sending)
        except ApiError as error:
            if status:
                raise
            await refuse(error, sending)
        except Exception as error:
            log(state, "error", error=type(error).__name__)
            logger.exception("request %s failed", state["request_id"])
            if status:
                raise
            await refuse(InternalError(), sending)
        finally:
            self._answers.inc(1, {"status": str(status)})
            log(state, "request", path=scope["path"], status=status, total_ms=(time.monotonic() - begun_s) * 1000)

    def _check(self, scope: Scope, headers: dict[bytes, str], state: dict[str, Any]) -> None:
        if scope["path"].removeprefix(scope.get("root_path", "")) in OPEN_PATHS:
            return
        authorization = headers.get(b"authorization")
        state["tenant"] = self._identify(authorization)
        state["recheck"] = lambda: self._identify(authorization)
        if headers.get(b"content-encoding", "identity") != "identity":
            raise EncodingUnknown
        length = headers.get(b"content-length", "0")
        if length.isdigit() and int(length) > self._max_body_bytes:
            raise BodyTooLarge(self._max_body_bytes)

    def _identify(self, authorization: str | None) -> Tenant:
        try:
            return self._tenants.current().identify(authorization, self._open)
        except Unauthorized as error:
            raise InvalidKey(str(error)) from error


async def refuse(error: ApiError, send: Send) -> None:
    """Answer with an error."""
    body = json.dumps(error.body()).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body))} | error.headers()
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def log(state: dict[str, Any], event: str, **fields: Any) -> None:
    """One line of JSON. Never a prompt, a reply or a key: a key's id at most."""
    tenant: Tenant | None = state.get("tenant")
    line = {
        "event": event,
        "request_id": state.get("request_id"),
        "clients_id": state.get("clients_id"),
        "tenant": tenant.name if tenant else None,
        "key": tenant.key_id if tenant else None,
    }
    rounded = {name: round(value, 2) if isinstance(value, float) else value for name, value in fields.items()}
    logger.info(json.dumps(line | rounded | state.get("noted", {})))
