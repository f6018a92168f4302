"""A fleet that runs the stand-in: its deploys, its load, and what Ray Serve says of its replicas."""

import asyncio
import json
import sys
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from tests.support.cluster import Cluster

CPU = {"node-kind": "cpu"}


def version(number: str, **more: Any) -> dict[str, Any]:
    """The stand-in's arguments: two replicas on the nodes of the kind."""
    return {"version": number, "replicas": 2, "nodes": CPU} | more


def command(parcel: Path, arguments: dict[str, Any]) -> list[str]:
    return [sys.executable, "-m", "tests.support.ship_stand_in", str(parcel), json.dumps(arguments)]


def ship(fleet: Cluster, parcel: Path, arguments: dict[str, Any], *options: str, **environment: str) -> dict[str, Any]:
    """Deploy from the head; the outcome."""
    done = fleet.run(*command(parcel, arguments), *options, **environment)
    assert done.returncode == 0, done.stderr
    outcome: dict[str, Any] = json.loads(done.stdout)
    return outcome


class Load:
    """Requests at a steady rate from the caller's machine through one node, until it is stopped."""

    def __init__(self, fleet: Cluster, address: str, per_s: float = 10) -> None:
        self.answers: list[tuple[float, dict[str, Any] | str]] = []
        self._url, self._period_s = f"http://{address}:8000/", 1 / per_s
        self._stopping = False
        self._thread = threading.Thread(target=lambda: fleet.caller.inside(lambda: asyncio.run(self._run())))

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        self._thread.join()

    def failures(self) -> list[str]:
        return [answer for _, answer in self.answers if isinstance(answer, str)]

    def answered(self) -> list[dict[str, Any]]:
        return [answer for _, answer in self.answers if isinstance(answer, dict)]

    async def _run(self) -> None:
        async with httpx.AsyncClient(trust_env=False, timeout=30) as client, asyncio.TaskGroup() as group:
            while not self._stopping:
                group.create_task(self._ask(client))
                await asyncio.sleep(self._period_s)

    async def _ask(self, client: httpx.AsyncClient) -> None:
        begun_s = time.monotonic()
        answer: dict[str, Any] | str
        try:
            reply = await client.get(self._url, params={"seconds": 0.2})
            answer = reply.json() if reply.status_code == 200 else f"{reply.status_code} {reply.text[:200]}"
        except httpx.HTTPError as error:
            answer = repr(error)
        self.answers.append((begun_s, answer))


def who(fleet: Cluster, address: str) -> dict[str, Any]:
    def ask() -> dict[str, Any]:
        answer: dict[str, Any] = httpx.get(f"http://{address}:8000/", trust_env=False, timeout=20).json()
        return answer

    return fleet.caller.inside(ask)


def wait_serving(fleet: Cluster, name: str) -> str:
    """The address of a node, once its proxy serves."""
    address = fleet.nodes[name].address
    fleet.wait_for(
        lambda: any(
            proxy["node_ip"] == address and proxy["status"] == "HEALTHY" for proxy in fleet.serve()["proxies"].values()
        ),
        f"the proxy of {name}",
    )
    return address


def replicas(fleet: Cluster) -> list[dict[str, Any]]:
    shown = fleet.serve()["applications"]["stand-in"]["deployments"]["StandIn"]["replicas"]
    return [replica for replica in shown if replica["state"] == "RUNNING"]


def replica_pids(fleet: Cluster) -> set[int]:
    return {replica["pid"] for replica in replicas(fleet)}


def replica_nodes(fleet: Cluster) -> list[str]:
    return [replica["node_ip"] for replica in replicas(fleet)]
