"""A small application in place of the product, where the models are not what is tested.

It is sent to a cluster as the product's code is, by `python -m tests.support.ship_stand_in`.
"""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import ray
from fastapi import FastAPI
from ray import serve

api = FastAPI()


@serve.deployment(name="StandIn")
@serve.ingress(api)
class StandIn:
    """Says who it is, after as long as it was asked to take."""

    def __init__(self, version: str, fails: bool, gate: str | None) -> None:
        while gate and not Path(gate).exists():  # a start that takes as long as a test wants
            time.sleep(0.1)
        if fails:
            raise RuntimeError("this version cannot start")
        self.version = version

    @api.get("/")
    async def who(self, seconds: float = 0) -> dict[str, Any]:
        await asyncio.sleep(seconds)
        return {"version": self.version, "pid": os.getpid(), "node": ray.util.get_node_ip_address()}


def build(arguments: dict[str, Any]) -> serve.Application:
    application: serve.Application = StandIn.options(  # type: ignore[attr-defined]
        num_replicas=arguments["replicas"],
        max_surge_percent=100,
        max_constructor_retry_count=2,
        max_ongoing_requests=100,
        graceful_shutdown_timeout_s=30,
        ray_actor_options={"num_cpus": 1, "label_selector": arguments.get("nodes")},
    ).bind(arguments["version"], arguments.get("fails", False), arguments.get("gate"))
    return application
