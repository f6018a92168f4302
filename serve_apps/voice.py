"""The voice application on Ray Serve: the calls' WebSocket and WebRTC signalling, and how many calls a replica takes.

One deployment: a call stays on the replica that accepted it for its whole life, because its connection does (a page's
offer carries all its candidates, so that one request sets the call up).
"""

import asyncio
import itertools
import os
from pathlib import Path

from fastapi import FastAPI, WebSocket
from fastapi.responses import PlainTextResponse
from loguru import logger
from pipecat.transports.base_transport import BaseTransport
from pipecat.transports.websocket.fastapi import FastAPIWebsocketParams, FastAPIWebsocketTransport
from ray import serve

from configs.budgets import Budget
from configs.deployment import Deployment
from voice.call import run_call, transport_params
from voice.serializer import CallSerializer
from voice.services import load_services

APP_NAME = "voice"
BUSY = "All lines are busy. Please try again in a moment."
TRY_AGAIN_LATER = 1013

api = FastAPI(title="firstclause voice")


@serve.deployment(name="Voice")
@serve.ingress(api)
class VoiceApp:
    """One replica: its models, and its calls."""

    async def __init__(self, deployment: Deployment, budget: Budget, models: dict[str, Path]) -> None:
        self._config = deployment.voice
        self._allocation_ms = budget.allocation_ms()
        self._services = await load_services(deployment, models)
        self._calls: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)

    @api.websocket("/voice/ws")
    async def websocket(self, websocket: WebSocket) -> None:
        """A call as pipecat protobuf frames. A full replica answers 503 before the WebSocket opens."""
        if self._busy():
            await websocket.send_denial_response(PlainTextResponse(BUSY, status_code=503))
            return
        await websocket.accept()
        serializer = CallSerializer(self._config.max_message_bytes)
        params = FastAPIWebsocketParams(**transport_params(), serializer=serializer)
        await self._call(FastAPIWebsocketTransport(websocket, params))

    def _busy(self) -> bool:
        return len(self._calls) >= self._config.calls_per_replica

    async def _call(self, transport: BaseTransport) -> None:
        call_id = f"call-{os.getpid()}-{next(self._numbers)}"
        call = asyncio.create_task(
            run_call(transport, self._config, self._services, self._allocation_ms, call_id), name=call_id
        )
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        logger.info("{} begins", call_id)
        try:
            await call
        finally:
            call.cancel()
            logger.info("{} ended", call_id)


def build(deployment: Deployment, budget: Budget, models: dict[str, Path]) -> serve.Application:
    """The application. `models` maps 'llm', 'asr' and 'tts' to their files."""
    application: serve.Application = VoiceApp.options(
        num_replicas=deployment.voice.replicas,
        # Beyond the calls: their refusals, the page and its files.
        max_ongoing_requests=deployment.voice.calls_per_replica + 64,
        ray_actor_options={"num_cpus": 1},
        graceful_shutdown_timeout_s=30,
        health_check_timeout_s=60,
    ).bind(deployment, budget, models)
    return application
