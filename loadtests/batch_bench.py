"""A deployment of the LLM tier for `loadtest batch`, with jobs on it: serve_apps.batch_bench as a process, and what it
left of each row.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psutil

from loadtests.peers.process import ROOT, ProcessError
from loadtests.private_config import private_config

STOP_S = 90
LOG_CHARS = 3000


@dataclass(frozen=True)
class Row:
    """A row's time with the engine, in seconds of this machine's monotonic clock. One that was taken back is not good,
    and has no tokens."""

    begin_s: float
    end_s: float
    good: bool
    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0


def read_rows(folder: Path) -> list[Row]:
    """Those that have ended."""
    path = folder / "rows.jsonl"
    return [Row(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def write_requests(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def fixed(in_flight: int) -> dict[str, float]:
    """Rules by which so many rows are in flight, whatever callers feel."""
    return {"start": in_flight, "floor": in_flight, "ceiling": in_flight, "reclaim_queue": 1e9}


class Bench:
    """The running process. Each question waits for its answer; raises ProcessError where it died."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._log = process, log
        ready = self._answer()
        self.url, self.app, self.server = str(ready["url"]), str(ready["app"]), str(ready["server"])

    def begin(
        self,
        folder: Path,
        file: Path | None,
        rules: Mapping[str, float] = MappingProxyType({}),
        priority: str = "batch",
    ) -> None:
        """Begin a job, or only watch the callers; `rules` replace the deployment's own."""
        given = {"folder": str(folder), "file": file and str(file), "rules": dict(rules), "priority": priority}
        self._ask("begin", **given)

    def wait(self) -> dict[str, Any]:
        """The job's state at its end."""
        return self._ask("wait")

    def end(self) -> dict[str, Any]:
        """Cancel the job, and what the harvest's ledger has."""
        return self._ask("end")

    def drive(self, module: str, *arguments: str) -> None:
        """Run another driver of the same cluster to its end."""
        if (code := self._ask("drive", module=module, arguments=list(arguments))["exit_code"]) != 0:
            raise ProcessError(f"{module} failed (exit code {code}): {self._said()}")

    def _ask(self, what: str, **given: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps({"do": what, **given}) + "\n")
            self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise ProcessError(f"the deployment for the measurement ended: {self._said()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _said(self) -> str:
        return self._log.read_text(errors="replace")[-LOG_CHARS:]


@contextmanager
def bench(config: Path, changes: Mapping[str, Mapping[str, Any]] = MappingProxyType({})) -> Iterator[Bench]:
    """A running one of `config` with `changes` a section. Nothing of it is left afterwards. Raises ProcessError."""
    with private_config(config, changes) as (folder, own_config), (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "serve_apps.batch_bench", str(own_config)],
            cwd=ROOT, env=os.environ | {"FIRSTCLAUSE_CACHE": str(folder)}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            yield Bench(process, folder / "log")
        finally:
            _end(process)


def _end(process: "subprocess.Popen[str]") -> None:
    """Ask it to stop; what is left of it after that is killed."""
    family: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):
        family = psutil.Process(process.pid).children(recursive=True)
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(STOP_S)
    if process.poll() is None:
        process.kill()
    _, left = psutil.wait_procs(family, timeout=5)
    for one in left:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        assert stream is not None
        with suppress(OSError):
            stream.close()
