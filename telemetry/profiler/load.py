"""Load time: an engine of its own, started in a process of its own, from nothing to its first token.

    python -m telemetry.profiler.load FD     a spec and its weights as JSON on standard input; the outcome as JSON to FD

The weights are read from the disk (the page cache is told to forget them); the libraries' files may be cached.
"""

import asyncio
import contextlib
import dataclasses
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from telemetry.profiler.engine import EngineSpec, Loaded, engine_target
from telemetry.profiler.target import TargetFailed

TIMEOUT_S = 1800.0
ROOT = Path(__file__).parents[2]


def start_once(spec: EngineSpec, weights: Sequence[Path], timeout_s: float = TIMEOUT_S) -> Loaded:
    """Start an engine cold, time it and stop it; whatever ends this leaves no process. Raises TargetFailed."""
    asked = {"spec": dataclasses.asdict(spec), "weights": [str(path) for path in weights]}
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "telemetry.profiler.load", str(writing)]
    with tempfile.TemporaryFile() as log:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, pass_fds=(writing,), cwd=ROOT,
            start_new_session=True, env={**os.environ, **spec.environment},
        )  # fmt: skip
        try:
            os.close(writing)
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(json.dumps(asked).encode())
            message = _wait_for(reading, process, begun + timeout_s)
            elapsed_s = time.perf_counter() - begun
            if message is None:
                log.seek(0)
                lines = log.read().decode(errors="replace").splitlines()[-15:]
                why = f"within {timeout_s:.0f} s" if process.poll() is None else f"(exit code {process.returncode})"
                raise TargetFailed("\n".join([f"the engine of its own did not come up {why}", *lines]))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(30)
            told = json.loads(message)
            # What comes before the child's own clock is its process.
            parts = told["parts"] | {"processes_s": told["parts"]["processes_s"] + elapsed_s - told["load_time_s"]}
            return Loaded(elapsed_s, int(told["kv_capacity_tokens"]), parts)
        finally:
            os.close(reading)
            _end(process)


def _wait_for(descriptor: int, process: "subprocess.Popen[bytes]", deadline: float) -> bytes | None:
    """The child's line; None where it died without one, or the time is over."""
    while time.perf_counter() < deadline:
        ready, _, _ = select.select([descriptor], [], [], 0.2)
        if ready:
            return os.read(descriptor, 4096) or None
        if process.poll() is not None:
            return None
    return None


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The process, and those it started: they are a session of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
            time.sleep(0.5)
    process.wait()


def main() -> None:
    descriptor = int(sys.argv[1])
    os.set_inheritable(descriptor, False)
    asked = json.load(sys.stdin)
    try:
        with engine_target(EngineSpec(**asked["spec"]), [Path(path) for path in asked["weights"]]) as target:
            loaded = asyncio.run(target.loaded())
            os.write(descriptor, json.dumps(dataclasses.asdict(loaded)).encode())
            os.close(descriptor)
    except TargetFailed as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
