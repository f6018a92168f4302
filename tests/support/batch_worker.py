"""A Ray cluster of its own with a batch crew: what a test kills, whole or in part.

python -m tests.support.batch_worker CONFIG_JSON ENGINE_URL CONCURRENCY
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from configs.batch import BatchConfig

ROOT = Path(__file__).parents[2]


class BatchCluster:
    """A running one. `log` is what it said."""

    def __init__(self, config: BatchConfig, engine_url: str, log: Path, concurrency: int = 8) -> None:
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", __name__, config.model_dump_json(), engine_url, str(concurrency)],
                cwd=ROOT, stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
        self._main = psutil.Process(self._process.pid)
        self._family: dict[int, psutil.Process] = {}

    def alive(self) -> bool:
        self.family()
        return self._process.poll() is None

    def family(self) -> list[psutil.Process]:
        """Its processes, those that it lost included."""
        with suppress(psutil.NoSuchProcess):
            self._family.update((child.pid, child) for child in self._main.children(recursive=True))
        return [process for process in self._family.values() if process.is_running()]

    def find(self, title: str) -> psutil.Process:
        """The process with `title` in its name; waits for it."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            for process in self.family():
                with suppress(psutil.NoSuchProcess):
                    if title in " ".join(process.cmdline()):
                        return process
            time.sleep(0.05)
        raise AssertionError(f"no {title}: {self.said()}")

    def said(self) -> str:
        return self.log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """All at once, as a power cut would."""
        family = self.family()
        for process in [self._main, *family]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait(30)
        psutil.wait_procs(family, timeout=30)


@contextmanager
def batch_cluster(config: BatchConfig, engine_url: str, log: Path, concurrency: int = 8) -> Iterator[BatchCluster]:
    """One that lives as long as the `with`, if it is not killed before."""
    cluster = BatchCluster(config, engine_url, log, concurrency)
    try:
        yield cluster
    finally:
        cluster.kill()


def main() -> None:
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"})
    os.environ["PYTHONPATH"] = str(ROOT)
    import ray

    from batch.crew import Crew
    from batch.engine import HttpTier
    from batch.share import FixedShare

    config = BatchConfig.model_validate_json(sys.argv[1])
    ray.init(address="local", num_cpus=4, object_store_memory=80_000_000, include_dashboard=False)
    Crew(config, HttpTier(sys.argv[2], timeout_s=30), FixedShare(int(sys.argv[3])))
    while True:
        time.sleep(3600)


if __name__ == "__main__":
    main()
