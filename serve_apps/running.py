"""What `up` leaves for `down` and `status`: one record of the deployment that runs on this machine.

The record outlives a killed supervisor, so that the next command can end what it left behind: processes are told by
their pid and start time, never by name.
"""

import contextlib
import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

from configs.models import cache_dir

PHASE_SERVING = "serving"


@dataclass(frozen=True)
class Process:
    """A process of ours; a recycled pid has another start time."""

    pid: int
    started: float

    @staticmethod
    def of(pid: int) -> "Process":
        return Process(pid, psutil.Process(pid).create_time())

    def find(self) -> psutil.Process | None:
        """The live process, or None."""
        try:
            process = psutil.Process(self.pid)
            alive = abs(process.create_time() - self.started) < 1 and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return None
        return process if alive else None


@dataclass(frozen=True)
class Running:
    """The record. `cluster` are the Ray processes that the supervisor started."""

    supervisor: Process
    url: str
    config: str
    phase: str
    cluster: tuple[Process, ...] = field(default=())

    @property
    def serving(self) -> bool:
        return self.phase == PHASE_SERVING

    def leftovers(self) -> list[psutil.Process]:
        """Live processes of the cluster."""
        return [process for record in self.cluster if (process := record.find()) is not None]


def run_dir() -> Path:
    """Where the record and the log are."""
    folder = cache_dir() / "run"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def log_path() -> Path:
    return run_dir() / "up.log"


def write(running: Running) -> None:
    """Replace the record at once."""
    descriptor, name = tempfile.mkstemp(dir=run_dir(), prefix=".running")
    with os.fdopen(descriptor, "w") as file:
        json.dump(asdict(running), file)
    Path(name).replace(_path())


def read() -> Running | None:
    """The record, or None if nothing was started or it was stopped. A record that cannot be read counts as none."""
    try:
        data = json.loads(_path().read_text())
        return Running(
            Process(**data["supervisor"]), data["url"], data["config"], data["phase"],
            tuple(Process(**process) for process in data["cluster"]),
        )  # fmt: skip
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget() -> None:
    """Remove the record."""
    with contextlib.suppress(FileNotFoundError):
        _path().unlink()


def sweep(running: Running, timeout_s: float = 20) -> None:
    """End what a dead supervisor left: raylets first, whose workers end with them, then the control store."""
    leftovers = running.leftovers()
    raylets = [process for process in leftovers if "raylet" in process.name()]
    for group in (raylets, [process for process in leftovers if process not in raylets]):
        for process in group:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(group, timeout=timeout_s / 2)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
    forget()


def wait_until_gone(process: psutil.Process, timeout_s: float) -> bool:
    """Whether a process ended within the time."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.1)
    return False


def _path() -> Path:
    return run_dir() / "running.json"
