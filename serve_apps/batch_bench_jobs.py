"""serve_apps.batch_bench's work, once the tier serves: one job at a time, in a driver of the tier's own cluster."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

from batch.harvest import Controller, HarvestShare
from batch.solo import TENANT, config_in, state, submit
from batch.store import Store
from batch.timed import TimedTier
from batch.worker import Worker
from configs.deployment import Deployment
from configs.tenants import PRIORITIES
from planning.policies.harvest import HarvestConfig
from serve_apps import llm
from serve_apps.batch import policy
from serve_apps.batch_tier import ServeCallers, ServeTier

POLL_S = 0.05
ENDED = ("completed", "failed", "expired", "cancelled")


class Job:
    """One job and its controller."""

    def __init__(self, deployment: Deployment, server: str, asked: dict[str, Any]) -> None:
        rules = HarvestConfig.model_validate(policy(deployment).model_dump() | asked["rules"])
        callers = ServeCallers(llm.APP_NAME, server)
        self._controller: Controller = HarvestShare(rules, deployment.batch.harvest.interval_s, callers).start()
        self._worker: threading.Thread | None = None
        if asked["file"] is None:
            return
        folder, priority = Path(asked["folder"]), PRIORITIES[asked["priority"]]
        config = config_in(folder)
        tier = ServeTier(llm.APP_NAME, server, deployment.llm.model, config.row_timeout_s, priority)
        self._begun_s = time.monotonic()
        self._id = submit(config, Path(asked["file"])).id
        self._store = Store(config.database_url())
        worker = Worker(config, TimedTier(tier, str(folder / "rows.jsonl")), self._controller)
        self._worker = threading.Thread(target=worker.work)
        self._worker.start()

    def wait(self) -> dict[str, Any]:
        """Its state at its end; wall_s from before the file was taken in."""
        while (found := state(self._store, self._id))["status"] not in ENDED:
            time.sleep(POLL_S)
        return found | {"wall_s": time.monotonic() - self._begun_s}

    def end(self) -> dict[str, Any]:
        if self._worker is None:
            self._controller.close()
        else:
            if state(self._store, self._id)["status"] not in ENDED:
                self._store.cancel(TENANT, self._id)
            self._worker.join()
        return self._controller.report("")


class Bench:
    """Does what stdin asks."""

    def __init__(self, deployment: Deployment, say: Callable[[dict[str, Any]], None]) -> None:
        self._deployment, self._say = deployment, say
        self._server = llm.server_name(deployment.llm)
        self._job: Job | None = None

    def serve(self, url: str) -> None:
        self._say({"url": url, "app": llm.APP_NAME, "server": self._server})
        try:
            for line in sys.stdin:
                self._say(self._do(json.loads(line)))
        finally:
            if self._job is not None:
                self._job.end()

    def _do(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["do"] == "begin":
            self._job = Job(self._deployment, self._server, asked)
            return {}
        if asked["do"] == "drive":
            return self._drive(asked["module"], asked["arguments"])
        assert self._job is not None
        if asked["do"] == "wait":
            return self._job.wait()
        job, self._job = self._job, None
        return job.end()

    def _drive(self, module: str, arguments: list[str]) -> dict[str, Any]:
        """Ray's token is in this process's environment."""
        environment = os.environ | {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
        done = subprocess.run([sys.executable, "-m", module, *arguments], env=environment, stdin=subprocess.DEVNULL)
        return {"exit_code": done.returncode}
