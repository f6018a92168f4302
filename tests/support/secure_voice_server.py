"""The voice application as it stands on a network: Ray Serve with TLS, the login, TURN; its models are faked.

python -m tests.support.secure_voice_server CONFIG.json     a deployment as JSON, secrets in the environment
"""

import sys
import time
from pathlib import Path

import ray
from fastapi import FastAPI
from ray import serve

from configs.budgets import load_budget
from configs.deployment import Deployment
from serve_apps.access import Access
from serve_apps.applications import http_options
from serve_apps.voice_routes import routes
from tests.support.fake_services import fake_services
from voice.switchboard import Switchboard


@serve.deployment
@serve.ingress()
class FakeVoice:
    """The product's routes and middleware."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._board = Switchboard(deployment.voice, fake_services(), load_budget().allocation_ms())

    def __serve_build_asgi_app__(self) -> FastAPI:
        api = routes(self._board)
        api.add_middleware(Access, deployment=self._deployment)
        return api


def main() -> None:
    deployment = Deployment.model_validate_json(Path(sys.argv[1]).read_text())
    ray.init(address="local", num_cpus=2, include_dashboard=False, object_store_memory=80_000_000)
    serve.start(http_options=http_options(deployment.http))
    serve.run(FakeVoice.bind(deployment), route_prefix="/")  # type: ignore[attr-defined]
    print("serving", flush=True)
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
