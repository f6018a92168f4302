"""`loadtest batch --case rows`: the job's own cost, with an engine that answers at once: memory, rows a second, resume.

Memory is the proportional set size of the job's whole process tree, its Ray cluster included, at its highest.
"""

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

ROOT = Path(__file__).parents[1]
GROUP_ROWS = 50_000
PREFIXES = 40
SAMPLE_EVERY_S = 0.5
Say = Callable[[str], None]


@dataclass(frozen=True)
class Run:
    """One job, from its process's start to its end."""

    rows: int
    wall_s: float
    rows_per_s: float
    peak_bytes: int
    resume_s: float | None = None
    """From the start of the process that went on to the first row that it finished."""


def write_rows(path: Path, rows: int) -> None:
    """A Parquet file of requests: prefixes interleaved, bodies as JSON text."""
    schema = pa.schema([(name, pa.string()) for name in ("custom_id", "method", "url", "body")])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, rows, GROUP_ROWS):
            numbers = range(first, min(rows, first + GROUP_ROWS))
            bodies = [
                json.dumps(
                    {"model": "stub", "messages": [{"role": "user", "content": f"{n % PREFIXES:02d} document {n}"}]}
                )
                for n in numbers
            ]
            columns = [
                [f"row-{n}" for n in numbers],
                ["POST"] * len(bodies),
                ["/v1/chat/completions"] * len(bodies),
                bodies,
            ]
            writer.write_table(pa.table(columns, schema=schema))


def perform(rows: int, say: Say) -> dict[str, Any]:
    """A tenth of the rows, then all, then all again with a kill halfway: each once in the output, whatever happened."""
    runs = {}
    for name, count, kill_at in (("tenth", max(1, rows // 10), None), ("whole", rows, None), ("killed", rows, 0.5)):
        say(f"{name}: {count:,} rows")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "rows.parquet"
            write_rows(path, count)
            runs[name] = _run(Path(folder), path, count, kill_at)
    growth = runs["whole"].peak_bytes / runs["tenth"].peak_bytes - 1
    return {"runs": {name: asdict(run) for name, run in runs.items()}, "memory_growth": growth}


def _run(folder: Path, path: Path, rows: int, kill_at: float | None) -> Run:
    begun = time.monotonic()
    peak = 0
    resume_s: float | None = None
    if kill_at is not None:
        with _Job(folder, path) as job:
            for line in job.lines():
                if line["completed"] >= kill_at * rows:
                    break
            peak = job.peak_bytes
        done = int(line["completed"])
        again = time.monotonic()
    with _Job(folder, path) as job:
        output = ""
        for line in job.lines():
            output = line.get("output", output)
            if kill_at is not None and resume_s is None and line.get("completed", 0) > done:
                resume_s = time.monotonic() - again
        peak = max(peak, job.peak_bytes)
    wall_s = time.monotonic() - begun
    ids = pq.read_table(output, columns=["custom_id"])["custom_id"] if output else pa.chunked_array([[]])
    if len(ids) != rows or len(ids.unique()) != rows:
        raise RuntimeError(f"{rows} rows went in, {len(ids)} came out, {len(ids.unique())} of them different")
    return Run(rows, wall_s, rows / wall_s, peak, resume_s)


class _Job:
    """`python -m batch.solo` and all its processes; killed at the end of the `with`, if it still runs."""

    def __init__(self, folder: Path, path: Path) -> None:
        self.peak_bytes = 0
        self._process = subprocess.Popen(
            [sys.executable, "-m", "batch.solo", str(folder), str(path)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        )  # fmt: skip
        self._over = threading.Event()
        self._family: list[psutil.Process] = []
        self._watch = threading.Thread(target=self._sample)
        self._watch.start()

    def lines(self) -> Any:
        """What it prints."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)
        if self._process.wait() != 0:
            raise RuntimeError("the job did not complete")

    def __enter__(self) -> "_Job":
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()
        for process in [*self._family, psutil.Process(self._process.pid)] if self._process.poll() is None else []:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()
        psutil.wait_procs(self._family, timeout=30)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _sample(self) -> None:
        main = psutil.Process(self._process.pid)
        while not self._over.wait(SAMPLE_EVERY_S):
            total = 0
            with suppress(psutil.NoSuchProcess):
                self._family = main.children(recursive=True)
                for process in [main, *self._family]:
                    with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                        total += process.memory_full_info().pss
            self.peak_bytes = max(self.peak_bytes, total)
