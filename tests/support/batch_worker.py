"""A batch worker as a process of its own, with a Ray cluster of its own: what a test kills.

python -m tests.support.batch_worker CONFIG_JSON ENGINE_URL CONCURRENCY
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from configs.batch import BatchConfig

ROOT = Path(__file__).parents[2]


class WorkerProcess:
    """A running worker. `log` is what it and its cluster said."""

    def __init__(self, config: BatchConfig, engine_url: str, log: Path, concurrency: int = 16) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, config.model_dump_json(), engine_url, str(concurrency)],
                cwd=ROOT, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self._family: dict[int, psutil.Process] = {}

    def alive(self) -> bool:
        self.family()
        return self._process.poll() is None

    def family(self) -> list[psutil.Process]:
        """Its cluster's processes, those that it lost included."""
        for process in [psutil.Process(self._process.pid)] if self._process.poll() is None else []:
            for child in process.children(recursive=True):
                self._family.setdefault(child.pid, child)
        return [process for process in self._family.values() if process.is_running()]

    def find(self, title: str) -> psutil.Process:
        """The process of its cluster with `title` in its name; waits for it."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for process in self.family():
                try:
                    if title in " ".join(process.cmdline()):
                        return process
                except psutil.NoSuchProcess:
                    continue
            time.sleep(0.05)
        raise AssertionError(f"no {title}: {self.log.read_text(errors='replace')[-3000:]}")

    def kill(self) -> None:
        """Kill the driver and its cluster at once, as a power cut would."""
        for process in [*self.family(), psutil.Process(self._process.pid)]:
            if process.is_running():
                process.kill()
        self._process.wait(30)
        psutil.wait_procs(list(self._family.values()), timeout=30)

    def kill_driver(self) -> None:
        """Kill the driver alone; its cluster goes a little later."""
        self.family()
        self._process.kill()
        self._process.wait(30)

    def end(self) -> None:
        """End whatever is left."""
        if self._process.poll() is None or self.family():
            family = self.family()
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait(30)
            for process in family:
                if process.is_running():
                    process.kill()
            psutil.wait_procs(family, timeout=30)


@contextmanager
def worker_process(
    config: BatchConfig, engine_url: str, log: Path, concurrency: int = 16
) -> Iterator[WorkerProcess]:  # fmt: skip
    """One that lives as long as the `with`, if it is not killed before."""
    worker = WorkerProcess(config, engine_url, log, concurrency)
    try:
        yield worker
    finally:
        worker.end()


def main() -> None:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    os.environ["PYTHONPATH"] = str(ROOT)
    import ray

    from batch.engine import EngineSpec
    from batch.share import FixedShare
    from batch.worker import Tier, Worker

    config = BatchConfig.model_validate_json(sys.argv[1])
    ray.init(
        address="local", num_cpus=4, object_store_memory=80_000_000, include_dashboard=False, log_to_driver=True
    )  # fmt: skip
    tier = Tier(EngineSpec(sys.argv[2], timeout_s=30), lambda: {"m"})
    Worker(config, tier, FixedShare(int(sys.argv[3]))).work()


if __name__ == "__main__":
    main()
