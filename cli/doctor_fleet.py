"""`firstclause doctor --address`: what is wrong with a running fleet, from what its dashboard says of it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cli.doctor import Check

TIMEOUT_S = 15
LOW_MEMORY = 0.92
"""The part in use beyond which Ray soon kills workers."""


def fleet_checks(address: str) -> Iterator[Check]:
    """Ask the dashboard at `address`, with the token of RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH."""
    import httpx

    token = os.environ.get("RAY_AUTH_TOKEN") or _read(os.environ.get("RAY_AUTH_TOKEN_PATH"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with httpx.Client(base_url=address, headers=headers, timeout=TIMEOUT_S, trust_env=False) as client:
        try:
            answer = client.get("/api/version")
        except httpx.HTTPError as error:
            todo = "it is the dashboard's address, through a tunnel: ssh -L 8265:127.0.0.1:8265 HEAD, or port-forward"
            yield Check("cluster", "missing", f"nothing answers at {address} ({type(error).__name__})", todo)
            return
        if answer.status_code in (401, 403):
            yield Check("token", "missing", "refused", "set RAY_AUTH_TOKEN to the token that the cluster has")
            return
        yield from version(answer.json()["ray_version"])
        yield from exposure(client.get("/api/version", headers={"Authorization": ""}).status_code)
        nodes = client.get("/nodes", params={"view": "summary"}).json()
        yield from node_checks(nodes["data"]["summary"])
        yield from serve_checks(client.get("/api/serve/applications/").json())


def version(cluster: str) -> Iterator[Check]:
    from importlib.metadata import version as installed

    here = installed("ray")
    if cluster == here:
        yield Check("ray", "ok", cluster)
    else:
        yield Check("ray", "missing", f"{cluster}, and {here} here", "use the checkout that the cluster runs")


def exposure(status_without_token: int) -> Iterator[Check]:
    """Whether the cluster answers somebody who has no token."""
    if status_without_token in (401, 403):
        yield Check("token", "ok", "wanted")
    else:
        todo = "start every node with RAY_AUTH_MODE=token and one RAY_AUTH_TOKEN: whoever reaches Ray runs code on it"
        yield Check("token", "missing", "the cluster lets in whoever reaches it", todo)


def node_checks(summary: list[dict[str, Any]]) -> Iterator[Check]:
    """`summary` is what the dashboard lists of its nodes."""
    for node in summary:
        name = f"node {node.get('ip') or node['raylet'].get('nodeManagerAddress', '?')}"
        if node["raylet"].get("state") != "ALIVE":
            yield Check(name, "advice", "dead", "replicas moved off it, if there was room; replace it")
            continue
        total, _, percent, _ = (node.get("mem") or [0, 0, 0, 0])[:4]
        found = f"{total / 1e9:.0f} GB of memory, {percent:.0f} % in use"
        low = percent / 100 > LOW_MEMORY
        todo = "Ray kills workers where memory runs out: fewer replicas a node, or larger nodes" if low else ""
        yield Check(name, "advice" if low else "ok", found, todo)


def serve_checks(details: dict[str, Any]) -> Iterator[Check]:
    """`details` is what Serve's REST API says of its applications and proxies."""
    if not details["applications"]:
        yield Check("applications", "missing", "none", "firstclause deploy")
    for name, application in details["applications"].items():
        deployments = application["deployments"].items()
        sick = [
            f"{key}: {one['status']} {one['message'][:120]}" for key, one in deployments if one["status"] != "HEALTHY"
        ]
        running = sum(r["state"] == "RUNNING" for _, one in deployments for r in one["replicas"])
        if application["status"] == "RUNNING" and not sick:
            yield Check(name, "ok", f"{running} replicas")
        else:
            found = f"{application['status']}, {running} replicas run; {'; '.join(sick)}"
            yield Check(name, "missing", found, "docs/runbook.md: an application does not run")
    for proxy in details.get("proxies", {}).values():
        if proxy["status"] not in ("HEALTHY", "DRAINING", "DRAINED"):
            todo = "what is in front takes it out by /-/healthz; look at its log on that node"
            yield Check(f"proxy {proxy['node_ip']}", "advice", proxy["status"], todo)


def _read(path: str | None) -> str | None:
    return Path(path).read_text().strip() if path else None
