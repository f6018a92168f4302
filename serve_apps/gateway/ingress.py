"""The gateway: Ray Serve LLM's ingress, with keys, admission, OpenAI's manners and clocks.

Ray's class keeps the models and their handles; both of its generating endpoints go through `_process_llm_request`,
which is replaced here.
"""

import logging
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from ray.llm._internal.serve.core.configs.openai_api_models import ModelCard, ModelList
from ray.llm._internal.serve.core.ingress.ingress import OpenAiIngress
from ray.llm._internal.serve.core.ingress.utils import _sanitize_chat_completion_request
from ray.llm._internal.serve.core.protocol import RawRequestInfo
from ray.util.metrics import Counter
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from configs.deployment import Deployment
from configs.tenants import Tenant
from planning.profile import Profile
from serve_apps.gateway.admission import Admission
from serve_apps.gateway.books import Books
from serve_apps.gateway.charges import size_of
from serve_apps.gateway.door import Door
from serve_apps.gateway.errors import ApiError, BadRequest, ErrorBody, Unavailable, UnknownModel
from serve_apps.gateway.exchange import RETRY_AFTER_S, EventStream, Exchange
from telemetry.clocks import ClockHistograms
from telemetry.tracing import Tracing

logger = logging.getLogger("ray.serve")

STRIPPED = ("session_id", "kv_transfer_params", "ec_transfer_params", "vllm_xargs")
"""Fields of vLLM's own that speak to the engine past the gateway; a client's are dropped. (So are all its headers.)"""

REFUSALS: dict[int | str, Any] = {
    status: {"model": ErrorBody} for status in (400, 401, 404, 405, 413, 415, 429, 500, 503)
}
REPLY = {"content": {"application/json": {"schema": {"type": "object"}}, "text/event-stream": {}}}
ENDPOINTS: dict[str, Any] = {
    "models": lambda app: app.get("/models", response_model=ModelList, responses=REFUSALS),
    "model_data": lambda app: app.get("/models/{model:path}", response_model=ModelCard, responses=REFUSALS),
    "completions": lambda app: app.post("/completions", responses={200: REPLY, **REFUSALS}),
    "chat": lambda app: app.post("/chat/completions", responses={200: REPLY, **REFUSALS}),
}


class Gateway(OpenAiIngress):
    """One replica of the gateway."""

    def __init__(self, *, deployment: Deployment, profile: Profile, long_tokens: int, **options: Any) -> None:
        """`long_tokens`: a prompt of more fills an engine's steps."""
        super().__init__(**options)
        self._llm, self._config = deployment.llm, deployment.gateway
        self._kv_tokens = profile.kv_capacity_bytes / profile.kv_bytes_per_token
        books = Books(self._config.store_url())
        self._admission = Admission(books, profile, self._capacity, self._config.max_queue_s, long_tokens)
        self._histograms = ClockHistograms()
        self._admitted = Counter("firstclause_requests_total", "Requests admitted.", ("model", "tenant"))
        self._tracing = Tracing(self._config.otlp_endpoint)

    async def model_data(self, model: str) -> ModelCard:
        """One model. Raises UnknownModel."""
        card = self._model_cards.get(model)
        if card is None:
            raise UnknownModel(model)
        return card

    async def _process_llm_request(self, body: Any, call_method: str, raw_request: Request | None = None) -> Response:
        assert raw_request is not None
        state = raw_request.scope["state"]
        tenant, request_id = state["tenant"], state["request_id"]
        model = self._checked(body)
        handle = self._get_configured_serve_handle(model)
        if _replicas(handle) == {}:
            raise Unavailable(f"No replica of {model} is ready.", RETRY_AFTER_S)
        size = size_of(body, self._llm.context_tokens, self._config.unstated_output_tokens)
        self._own(body, model, tenant, request_id)
        with self._tracing.span("gateway", raw_request.headers) as span:
            admitted = await self._admission.enter(request_id, tenant, size)
            exchange = Exchange(self._admission, admitted, model, state)
            exchange.wants_clocks = raw_request.headers.get("x-clocks") == "1"
            self._admitted.inc(1, {"model": model, "tenant": tenant.name})
            try:
                info = RawRequestInfo({"x-request-id": request_id} | admitted.headers() | span.headers())
                await exchange.begin(getattr(handle, call_method), body, info)
                if body.stream:
                    return EventStream(exchange, self._config.max_stream_s, self._end)
                reply = (await exchange.whole()).model_dump()
            except BaseException:
                await exchange.end()
                raise
            await self._end(exchange)
        if exchange.wants_clocks:
            reply["clocks"] = exchange.clocks.as_json()
        return JSONResponse(reply)

    async def _end(self, exchange: Exchange) -> None:
        await exchange.end()
        self._histograms.observe(exchange.clocks, exchange.model, exchange.tenant.config.tenant_class)

    def _checked(self, body: Any) -> str:
        """The model's name. Raises ApiError for what no replica needs to see."""
        model = body.model or next(iter(self._model_cards))
        if model not in self._model_cards:
            raise UnknownModel(model)
        if (body.n or 1) > self._llm.max_num_seqs:
            raise BadRequest(f"n = {body.n} is over {self._llm.max_num_seqs}", "n")
        return str(model)

    def _own(self, body: Any, model: str, tenant: Tenant, request_id: str) -> None:
        """What the gateway alone says of a request."""
        body.model, body.request_id = model, request_id
        body.priority, body.cache_salt = tenant.priority, tenant.cache_salt
        for name in STRIPPED:
            if getattr(body, name, None) is not None:
                setattr(body, name, None)
        if hasattr(body, "messages"):
            _sanitize_chat_completion_request(body)

    def _capacity(self) -> tuple[float, float, float]:
        """Seats, KV tokens and lanes of the replicas that are there, this gateway's part of them."""
        replicas = max((len(_replicas(handle) or ()) for handle in self._configured_serve_handles.values()), default=1)
        part = max(1, replicas) / self._config.replicas
        return part * self._llm.max_num_seqs, part * self._kv_tokens, part


def _replicas(handle: Any) -> Any:
    """The running replicas that a handle's router knows; None before it was told of any."""
    router = handle._init_router()
    known = router._asyncio_router.request_router
    return known.curr_replicas if known is not None and router.running_replicas_populated() else None


def application(deployment: Deployment) -> FastAPI:
    """The routes' frame: the door, and every error in OpenAI's shape."""
    app = FastAPI(title="firstclause", version="1", docs_url=None, redoc_url=None)
    app.add_middleware(Door, config=deployment.gateway, is_open=deployment.gateway.is_open(deployment.http.loopback))

    @app.exception_handler(ApiError)
    async def refused(_: Request, error: ApiError) -> JSONResponse:
        return JSONResponse(error.body(), error.status, error.headers())

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        return await refused(request, bad_body(error))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        if isinstance(error.__cause__, ApiError):  # FastAPI's wrapping of what reading the body raised
            return await refused(request, error.__cause__)
        return await refused(request, ApiError(error.status_code, str(error.detail), "invalid_request_error"))

    return app


def bad_body(error: RequestValidationError) -> BadRequest:
    """What is wrong first, and where. The value itself is not repeated: it may be a prompt."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return BadRequest("The request body is not valid JSON.", None, "invalid_json")
    where = ".".join(str(part) for part in first["loc"] if part != "body") or None
    return BadRequest(first["msg"] if where is None else f"{where}: {first['msg']}", where)
