"""The deploy itself: a Ray job on the cluster, so that it ends well whatever becomes of who started it.

Checks, deploys, waits and rolls back; says what it does as lines of JSON on its stdout, each {"step" | "outcome": …}.
Only one runs at a time: each holds the one actor of a name, which Ray ends with its job.

    python -m serve_apps.deploying.job      with the plan in FIRSTCLAUSE_PLAN
"""

import json
import os
import signal
import sys
import time
from typing import Any

from configs.errors import InputError
from serve_apps.deploying.fit import problems
from serve_apps.deploying.plan import Plan
from serve_apps.deploying.rollout import Rollout, State, same
from serve_apps.stopping import Stopped, stop_on

PLAN_ENV = "FIRSTCLAUSE_PLAN"
OURS = "serve_apps."
POLL_S = 1.0
NAMESPACE = "firstclause"
LOCK = "deploying"
HTTP_FIXED = ("host", "port")


class Lock:
    """Whoever has the actor of this name deploys."""


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def run(plan: Plan) -> None:
    """Deploy, or say that another deploy does. Raises Stopped."""
    import ray

    context = ray.init(log_to_driver=False, namespace=NAMESPACE)
    stop_on(signal.SIGTERM)
    try:
        lock = ray.remote(num_cpus=0)(Lock).options(name=LOCK).remote()  # held for as long as this function runs
    except ValueError:
        say(outcome="busy", problems=["another deploy runs; wait for it, or end it: ray job list, ray job stop"])
        return
    working_dir = ray.get_runtime_context().runtime_env["working_dir"]
    _deploy(plan, working_dir, f"http://{context.dashboard_url}")
    del lock


def _deploy(plan: Plan, working_dir: str, dashboard: str) -> None:
    """Raises Stopped, after the version that was there before is asked for again."""
    from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

    wanted = [_with_code(config, working_dir) for config in plan.serve["applications"]]
    say(step="checking versions, models and resources")
    found = _check(plan)
    serve = ServeSubmissionClient(dashboard)
    details = serve.get_serve_details()
    found += _fixed(plan, details)
    if found:
        say(outcome="refused", problems=found)
        return
    running = {name: app for name, app in details["applications"].items() if app.get("deployed_app_config")}
    if all(_runs(running.get(config["name"]), config) for config in wanted):
        say(outcome="unchanged", nodes=_proxies(details))
        return
    names = {config["name"] for config in wanted}
    before = [app["deployed_app_config"] for app in running.values()]
    others = [config for config in before if config["name"] not in names and not config["import_path"].startswith(OURS)]
    say(step=f"deploying {', '.join(sorted(names))}")
    try:
        serve.deploy_applications(plan.serve | {"applications": [*others, *wanted]})
        state = _wait(serve, Rollout(tuple(wanted), time.monotonic(), plan.deadline_s))
    except Stopped:
        serve.deploy_applications(plan.serve | {"applications": before})
        say(outcome="stopped", restored=sorted(config["name"] for config in before))
        raise
    if state.outcome == "serving":
        say(outcome="serving", nodes=_proxies(serve.get_serve_details()))
        return
    say(step=f"rolling back: {state.said}")
    serve.deploy_applications(plan.serve | {"applications": before})
    back = _wait(serve, Rollout(tuple(before), time.monotonic(), plan.deadline_s))
    say(
        outcome="rolled back", problems=[state.said], restored=sorted(config["name"] for config in before),
        serving=back.outcome == "serving", said=back.said,
    )  # fmt: skip


def _check(plan: Plan) -> list[str]:
    from serve_apps.deploying.cluster import nodes_of, pieces_of

    nodes = nodes_of(plan.needs)
    found = problems(plan.needs, [], nodes)
    if found:  # what is missing would keep the applications from being built
        return found
    try:
        return problems(plan.needs, list(pieces_of(plan)), nodes)
    except InputError as error:
        return [str(error)]


def _fixed(plan: Plan, details: dict[str, Any]) -> list[str]:
    """Where Serve serves is decided when it is started."""
    now = details.get("http_options") or {}
    return [
        f"http.{key} is {now[key]} and cannot change to {plan.serve['http_options'][key]} while Serve runs; "
        "to change it: serve shutdown, then deploy"
        for key in HTTP_FIXED
        if details["applications"] and key in now and now[key] != plan.serve["http_options"][key]
    ]


def _with_code(config: dict[str, Any], working_dir: str) -> dict[str, Any]:
    return config | {"runtime_env": {**config.get("runtime_env", {}), "working_dir": working_dir}}


def _runs(application: dict[str, Any] | None, config: dict[str, Any]) -> bool:
    return (
        application is not None
        and application["status"] == "RUNNING"
        and same(application["deployed_app_config"], config)
    )


def _wait(serve: Any, rollout: Rollout) -> State:
    said = ""
    while (state := rollout.state(serve.get_serve_details(), time.monotonic())).outcome == "waiting":
        if state.said != said:
            say(step=state.said)
            said = state.said
        time.sleep(POLL_S)
    return state


def _proxies(details: dict[str, Any]) -> list[str]:
    port = details["http_options"]["port"]
    return [f"{proxy['node_ip']}:{port}" for proxy in details["proxies"].values() if proxy["status"] == "HEALTHY"]


def main() -> None:
    try:
        run(Plan.model_validate_json(os.environ[PLAN_ENV]))
    except Stopped:
        sys.exit(143)


if __name__ == "__main__":
    main()
