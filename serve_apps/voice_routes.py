"""The voice application's HTTP: the talk page, a call's WebSocket, a WebRTC call's signalling. No Ray in here."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from fastapi import APIRouter, FastAPI, WebSocket
from fastapi.exceptions import RequestValidationError
from fastapi.responses import PlainTextResponse, Response
from fastapi.staticfiles import StaticFiles
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from starlette.status import WS_1008_POLICY_VIOLATION
from starlette.types import Scope

import voice
from configs.budgets import RESPONSE_MS
from serve_apps.access import error_response
from voice.call import transport_params
from voice.ice import peers_servers
from voice.serializer import CallSerializer
from voice.switchboard import BusyError, Switchboard
from voice.twilio import StreamError, TwilioSerializer, stream_start
from voice.webrtc import Offer, OfferError

PAGE = Path(voice.__path__[0]) / "page"
PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # Kept by the browser, and asked about each time: the files belong together.
    "Cache-Control": "no-cache",
}
RETRY_AFTER_S = 5


class PageFiles(StaticFiles):
    """The page's few files, with the headers that a browser holds them to."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answers 304 to a browser that has the file."""
        response = await super().get_response(path, scope)
        response.headers.update(PAGE_HEADERS)
        return response


def routes(board: Switchboard, *more: APIRouter) -> FastAPI:
    """The application for one replica's switchboard, and `more` routes before the page's files."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await board.close()

    api = FastAPI(title="firstclause voice", lifespan=lifespan, docs_url=None, redoc_url=None)

    @api.exception_handler(BusyError)
    async def busy(_: object, error: BusyError) -> Response:
        return error_response(503, "busy", str(error), {"Retry-After": str(RETRY_AFTER_S)})

    @api.exception_handler(OfferError)
    async def no_offer(_: object, error: OfferError) -> Response:
        return error_response(400, "invalid_request_error", str(error))

    @api.exception_handler(RequestValidationError)
    async def invalid(_: object, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return error_response(400, "invalid_request_error", f"{where}: {first['msg']}")

    @api.websocket("/voice/ws")
    async def websocket(websocket: WebSocket) -> None:
        """A call as pipecat protobuf frames. A full replica answers 503 before the WebSocket opens."""
        try:
            with board.place():
                await websocket.accept()
                serializer = CallSerializer(board.config.max_message_bytes)
                params = FastAPIWebsocketParams.model_validate(transport_params() | {"serializer": serializer})
                await board.call(FastAPIWebsocketTransport(websocket, params))
        except BusyError as error:
            await websocket.send_denial_response(PlainTextResponse(str(error), status_code=503))

    @api.websocket("/voice/twilio")
    async def twilio(websocket: WebSocket) -> None:
        """A telephone call as a media stream of Twilio's. What is none is closed with 1008 and the reason."""
        try:
            with board.place():
                await websocket.accept()
                limit = board.config.max_message_bytes
                start = await stream_start(websocket, limit)
                serializer = TwilioSerializer(start.stream_sid, limit)
                params = FastAPIWebsocketParams.model_validate(transport_params() | {"serializer": serializer})
                await board.call(FastAPIWebsocketTransport(websocket, params), greet_at_once=True)
        except StreamError as error:
            with suppress(RuntimeError):  # it hung up
                await websocket.close(WS_1008_POLICY_VIOLATION, str(error)[:100])
        except BusyError as error:
            await websocket.send_denial_response(PlainTextResponse(str(error), status_code=503))

    @api.post("/voice/offer")
    async def offer(offer: Offer) -> dict[str, str]:
        """A WebRTC offer with all its candidates, answered likewise: {"sdp", "type"}."""
        return await board.answer(offer)

    @api.get("/voice/settings")
    async def settings() -> dict[str, object]:
        """What the page has to know before a call."""
        return {
            "ice_servers": peers_servers(board.config.ice_servers, time.time()),
            "response_ms": RESPONSE_MS,
            "allocation_ms": board.allocation_ms,
        }

    for router in more:
        api.include_router(router)
    api.mount("/", PageFiles(directory=PAGE, html=True))
    return api
