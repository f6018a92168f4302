"""The deploy from outside: sends code and plan to a cluster's job server and follows what the job says.

Everything goes through the dashboard's REST API, over one address: nothing of Ray has to be reachable but that.
"""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from serve_apps.deploying.job import PLAN_ENV
from serve_apps.deploying.plan import Plan

ROOT = Path(__file__).parents[2]
LEFT_OUT = ["/.?*", "/tests", "/docs", "/build", "__pycache__", "*.egg-info", "*.wav"]
"""Of the checkout: what no replica needs (.gitignore's patterns; what Git ignores is left out anyway)."""
POLL_S = 0.5
CONNECT_S = 10
STOP_S = 60


class DeployError(RuntimeError):
    """The cluster could not be asked, or the job died. The message says what to do; a retry may help."""


def deploy(address: str, plan: Plan, progress: Callable[[str], None], code: Path = ROOT) -> dict[str, Any]:
    """Deploy and wait; returns the job's outcome, {"outcome", …} as job.py says it. `address` is the dashboard's URL.

    Raises DeployError. On KeyboardInterrupt the job is stopped, which restores what ran before.
    """
    client = _connect(address)
    progress("sending the code")
    try:
        job = client.submit_job(
            entrypoint="python -m serve_apps.deploying.job",
            runtime_env={
                "working_dir": str(code),
                "excludes": LEFT_OUT,
                "env_vars": {PLAN_ENV: plan.model_dump_json()},
            },
        )
    except RuntimeError as error:
        raise DeployError(_last_line(error)) from error
    try:
        return _follow(client, job, progress)
    except KeyboardInterrupt:
        progress("stopping: what ran before is restored")
        client.stop_job(job)
        deadline = time.monotonic() + STOP_S
        while not client.get_job_status(job).is_terminal() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        raise


def _connect(address: str) -> Any:
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    try:
        return JobSubmissionClient(address)
    except AuthenticationError as error:
        raise DeployError(
            f"{address} wants the cluster's token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) "
            "to the one it was started with"
        ) from error
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise DeployError(
            f"no Ray cluster answers at {address} ({_last_line(error)}); it is the dashboard's address, for a cluster "
            "elsewhere through a tunnel: ssh -L 8265:127.0.0.1:8265 HEAD, or kubectl port-forward"
        ) from error


def _follow(client: Any, job: str, progress: Callable[[str], None]) -> dict[str, Any]:
    seen = 0
    outcome: dict[str, Any] | None = None
    while True:
        over = client.get_job_status(job).is_terminal()
        log = client.get_job_logs(job)
        for event in _events(log[seen : log.rfind("\n") + 1]):
            if "step" in event:
                progress(event["step"])
            else:
                outcome = event
        seen = log.rfind("\n") + 1
        if outcome is not None:
            return outcome
        if over:
            info = client.get_job_info(job)
            tail = " | ".join(log.splitlines()[-4:])
            raise DeployError(f"the deploy's job ended without an outcome: {info.message or ''} {tail}".strip())
        time.sleep(POLL_S)


def _events(text: str) -> Iterator[dict[str, Any]]:
    """The job's own lines; what Ray and others print between them is none of them."""
    for line in text.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and ("step" in event or "outcome" in event):
            yield event


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
