"""When a version is up, and when it never will be: a state machine fed with what Ray Serve says. Pure.

waiting -> serving      every application runs what was asked for, every replica and proxy is healthy
waiting -> failed       Serve gave an application up, or the deadline passed
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

DEAD = ("DEPLOY_FAILED", "UNHEALTHY")
SERVING_PROXIES = ("HEALTHY", "DRAINING", "DRAINED")
"""One drains where its node's last replica has left: it answers until nobody asks it any more."""


@dataclass(frozen=True)
class State:
    """Where a rollout stands; `said` is for a person: what it waits for, or why it failed."""

    outcome: Literal["waiting", "serving", "failed"]
    said: str


@dataclass(frozen=True)
class Rollout:
    """One version on its way up. `configs` are the applications as they were sent, `details` what Serve's REST API
    answers to GET; times are of one monotonic clock."""

    configs: tuple[dict[str, Any], ...]
    begun_s: float
    deadline_s: float

    def state(self, details: dict[str, Any], now_s: float) -> State:
        applications = details.get("applications", {})
        waiting = []
        for config in self.configs:
            application = applications.get(config["name"])
            if application is None or not same(application.get("deployed_app_config"), config):
                waiting.append(f"{config['name']}: not taken up yet")
                continue
            if application["status"] in DEAD:
                return State("failed", f"{config['name']}: {application['status']}: {_reason(application)}")
            if application["status"] != "RUNNING":
                waiting.append(f"{config['name']}: {_progress(application)}")
        if not waiting:
            waiting = [
                f"the proxy of node {proxy.get('node_ip', node)}: {proxy['status']}"
                for node, proxy in details.get("proxies", {}).items()
                if proxy["status"] not in SERVING_PROXIES
            ]
        if not waiting:
            return State("serving", "every application runs")
        if now_s - self.begun_s > self.deadline_s:
            return State("failed", f"not up after {self.deadline_s:.0f} s; {'; '.join(waiting)}")
        return State("waiting", "; ".join(waiting))


def same(deployed: dict[str, Any] | None, config: dict[str, Any]) -> bool:
    """Whether what Serve says it deploys is what was sent; it may fill in defaults, at any depth."""
    return deployed is not None and _within(config, deployed)


def _within(asked: Any, said: Any) -> bool:
    if isinstance(asked, dict) and isinstance(said, dict):
        return all(key in said and _within(value, said[key]) for key, value in asked.items())
    return bool(asked == said)


def _reason(application: dict[str, Any]) -> str:
    """The longest message is the one with the cause in it; its last lines say it."""
    messages = [str(application.get("message") or "")]
    messages += [str(one.get("message") or "") for one in application.get("deployments", {}).values()]
    lines = [line.strip() for line in max(messages, key=len).splitlines() if line.strip()]
    return " | ".join(lines[-3:])[-600:] or "no reason given"


def _progress(application: dict[str, Any]) -> str:
    return ", ".join(_deployments(application)) or "being built"


def _deployments(application: dict[str, Any]) -> Iterator[str]:
    for name, deployment in application.get("deployments", {}).items():
        if deployment["status"] == "HEALTHY":
            continue
        replicas = [replica["state"] for replica in deployment.get("replicas", [])]
        counts = ", ".join(f"{replicas.count(state)} {state.lower()}" for state in dict.fromkeys(replicas))
        message = str(deployment.get("message") or "").splitlines()
        yield f"{name} {counts or 'no replica yet'}" + (f" ({message[0][:200]})" if message else "")
