"""The process that owns a local deployment: starts it, keeps the record, and stops it on SIGTERM or Ctrl-C.

Run by `firstclause up`; `python -m serve_apps.supervisor CONFIG` is the same in the foreground.
"""

import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import psutil

from configs.deployment import Deployment, load_deployment
from serve_apps import local, running
from serve_apps.running import PHASE_SERVING, Process, Running


class Stopped(BaseException):
    """SIGTERM or SIGINT came: not an Exception, so that nothing on the way mistakes it for a failure."""


def supervise(
    deployment: Deployment, config: Path, progress: Callable[[str], None], serving: Callable[[str], None]
) -> None:
    """Start the deployment, call `serving` with its URL, and wait for a signal. Leaves nothing running.

    Raises what `local.start` raises. A second signal while stopping is ignored.
    """
    url = deployment.http.inside_url
    record = Running(Process.of(os.getpid()), url, str(config), "starting")
    running.write(record)
    waiting = threading.Event()

    def stop(signum: int, _: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        waiting.set()
        raise Stopped

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)

    def report(phase: str) -> None:
        nonlocal record
        record = dataclasses.replace(record, phase=phase, cluster=_cluster())
        running.write(record)
        progress(phase)

    try:
        local.start(deployment, report)
        record = dataclasses.replace(record, phase=PHASE_SERVING, cluster=_cluster())
        running.write(record)
        serving(url)
        while not waiting.wait(3600):
            pass
    except Stopped:
        progress("stopping")
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        local.stop()
        running.sweep(record)


def _cluster() -> tuple[Process, ...]:
    children = psutil.Process().children()
    return tuple(Process(child.pid, child.create_time()) for child in children)


def main() -> None:
    config = Path(sys.argv[1])
    supervise(load_deployment(config), config, lambda phase: print(phase, flush=True), lambda _: None)


if __name__ == "__main__":
    main()
