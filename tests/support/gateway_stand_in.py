"""The gateway in real Ray Serve over HTTP, before replicas that need no model: a word every `PACE_S`."""

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from typing import Any

from serve_apps.gateway.report import CachedTokens, Report, Usage

MODEL = "stand-in"
PACE_S = 0.05


class StandIn:
    """Says max_tokens words, each with the process that says it."""

    def __init__(self, version: str) -> None:
        # what requests are made of: a replica is ready when it can read one
        from ray.llm._internal.serve.core.configs import openai_api_models  # noqa: F401

        self._version = version

    async def chat(self, request: Any, info: Any = None) -> AsyncGenerator[Any, None]:
        for number in range(request.max_tokens):
            await asyncio.sleep(PACE_S)
            word = {"content": f"{self._version}/{os.getpid()}/{number} "}
            yield [f"data: {json.dumps({'choices': [{'index': 0, 'delta': word}]})}\n\n"]
        yield ["data: [DONE]\n\n"]
        yield Report(Usage(1, request.max_tokens, CachedTokens(0)), 1.0)


def application(deployment: Any, profile: Any, version: str = "one", **options: Any) -> Any:
    """The gateway's application with stand-ins behind it. `options` are their deployment's."""
    from ray import serve
    from ray.llm._internal.serve.core.configs.openai_api_models import ModelCard
    from ray.serve.llm.ingress import make_fastapi_ingress

    from serve_apps.gateway.ingress import ENDPOINTS, Gateway
    from serve_apps.gateway.ingress import application as frame

    servers = serve.deployment(StandIn, name="StandIn", graceful_shutdown_timeout_s=60, **options).bind(version)
    ingress = serve.deployment(
        make_fastapi_ingress(Gateway, endpoint_map=ENDPOINTS, app=frame(deployment)),
        graceful_shutdown_timeout_s=60, max_ongoing_requests=1000,
    )  # fmt: skip
    card = ModelCard(id=MODEL, object="model", owned_by="tests", permission=[], metadata={})
    return ingress.bind(
        deployment=deployment, profile=profile, long_tokens=1000,
        llm_deployments={MODEL: servers}, model_cards={MODEL: card},
    )  # fmt: skip
