"""What a deployment says of itself: health for machines, applications for people."""

from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse

from configs.deployment import Deployment
from serve_apps.metrics import gather


def status_routes(deployment: Deployment) -> APIRouter:
    """/healthz: this process answers. /readyz: every application runs. /status: which. /metrics: of all replicas."""
    router = APIRouter()

    @router.get("/healthz")
    def healthz() -> PlainTextResponse:
        return PlainTextResponse("ok")

    @router.get("/readyz")
    def readyz() -> PlainTextResponse:
        waiting = [app["name"] for app in _applications(deployment) if app["status"] != "RUNNING"]
        if waiting:
            return PlainTextResponse(f"not ready: {', '.join(waiting)}", status_code=503)
        return PlainTextResponse("ready")

    @router.get("/metrics")
    async def metrics() -> PlainTextResponse:
        return PlainTextResponse(await gather(), media_type="text/plain; version=0.0.4")

    @router.get("/status")
    def status() -> JSONResponse:
        return JSONResponse({"applications": _applications(deployment)})

    return router


def _applications(deployment: Deployment) -> list[dict[str, Any]]:
    from ray import serve

    voice = deployment.voice
    models = {"llm": [deployment.llm.model], "voice": [voice.hearing.model, voice.speaking.model]}
    return [
        {
            "name": name,
            "status": str(application.status.value),
            "replicas": sum(sum(d.replica_states.values()) for d in application.deployments.values()),
            "models": models.get(name, []),
        }
        for name, application in serve.status().applications.items()
    ]
