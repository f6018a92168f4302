"""The voice application on Ray Serve: how many replicas, how many calls each.

One deployment: a call stays on the replica that accepted it for its whole life, because its connection does (a page's
offer carries all its candidates, so that one request sets the call up).
"""

from pathlib import Path

from fastapi import FastAPI
from ray import serve

from configs.budgets import Budget
from configs.deployment import Deployment
from serve_apps import llm
from serve_apps.access import Access, check_secrets
from serve_apps.status import status_routes
from serve_apps.voice_chat import ServeChat
from serve_apps.voice_metrics import RayTally
from serve_apps.voice_routes import routes
from voice.llm import ChatModel, OpenAiChat
from voice.services import load_services
from voice.switchboard import Switchboard
from voice.tools import Tools
from voice.webrtc import offer_loopback

APP_NAME = "voice"


@serve.deployment(name="Voice")
@serve.ingress()
class VoiceApp:
    """One replica: its models, and its calls."""

    async def __init__(  # type: ignore[misc]  # Ray awaits it
        self, deployment: Deployment, budget: Budget, models: dict[str, Path], llm_server: str
    ) -> None:
        check_secrets(deployment)
        if deployment.http.loopback:
            offer_loopback()
        self._deployment = deployment
        tools = Tools(deployment.voice.tools)
        services = await load_services(deployment, models, _chat(deployment, llm_server, tools), tools, RayTally())
        self._board = Switchboard(deployment.voice, services, budget.allocation_ms())

    def __serve_build_asgi_app__(self) -> FastAPI:
        api = routes(self._board, status_routes(self._deployment))
        api.add_middleware(Access, deployment=self._deployment)
        return api


def _chat(deployment: Deployment, llm_server: str, tools: Tools) -> ChatModel:
    language = deployment.voice.language
    # Calls of tools travel in OpenAI's messages, which the handle's plain text has no room for.
    if language.base_url is not None or tools:
        url = language.base_url or f"{deployment.http.inside_url}/v1"
        return OpenAiChat(url, language.model or deployment.llm.model, deployment.voice, tools.schemas())
    return ServeChat(deployment, llm.APP_NAME, llm_server)


def build(deployment: Deployment, budget: Budget, models: dict[str, Path]) -> serve.Application:
    """The application. `models` maps 'llm', 'asr' and 'tts' to their files."""
    config = deployment.voice
    application: serve.Application = VoiceApp.options(  # type: ignore[attr-defined]
        num_replicas=config.replicas,
        # Beyond the calls: their refusals, the page and its files.
        max_ongoing_requests=config.calls_per_replica + 64,
        max_surge_percent=config.surge_percent,
        ray_actor_options={
            "num_cpus": 1,
            **({"num_gpus": config.hearing.gpu_share} if config.hearing.device == "cuda" else {}),
            **({"label_selector": config.nodes} if config.nodes else {}),
        },
        graceful_shutdown_timeout_s=30,
        health_check_timeout_s=60,
    ).bind(deployment, budget, models, llm.server_name(deployment.llm))
    return application
