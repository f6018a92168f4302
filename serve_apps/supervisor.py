"""The process that owns a local deployment: starts it, keeps the record, and stops it on SIGTERM or Ctrl-C.

Run by `firstclause up`; `python -m serve_apps.supervisor CONFIG` is the same in the foreground.
"""

import dataclasses
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

from configs.deployment import Deployment, load_deployment
from serve_apps import local, running
from serve_apps.applications import APPLICATIONS, Served
from serve_apps.running import PHASE_SERVING, Process, Running
from serve_apps.stopping import Stopped, ignore, stop_on

SIGNALS = (signal.SIGTERM, signal.SIGINT)


def supervise(
    deployment: Deployment, config: Path, progress: Callable[[str], None], serving: Callable[[str], None],
    applications: tuple[Served, ...] = APPLICATIONS,
) -> None:  # fmt: skip
    """Start the deployment, call `serving` with its URL, and wait for a signal. Leaves nothing running. `serving` may
    end it too, with Stopped.

    Raises what `local.start` raises. A second signal while stopping is ignored.
    """
    url = deployment.http.inside_url
    record = Running(Process.of(os.getpid()), url, str(config), "starting")
    running.write(record)
    stop_on(*SIGNALS)

    def report(phase: str) -> None:
        nonlocal record
        stop_on(*SIGNALS)
        record = dataclasses.replace(record, phase=phase, cluster=_cluster())
        running.write(record)
        progress(phase)

    try:
        local.start(deployment, report, applications)
        record = dataclasses.replace(record, phase=PHASE_SERVING, cluster=_cluster())
        running.write(record)
        serving(url)
        while True:
            time.sleep(3600)
    except Stopped:
        progress("stopping")
    finally:
        ignore(*SIGNALS)
        record = dataclasses.replace(record, cluster=_cluster())
        local.stop()
        running.sweep(record)


def _cluster() -> tuple[Process, ...]:
    # Down to the raylet's agents, which would outlive it by minutes.
    children = psutil.Process().children(recursive=True)
    return tuple(Process(child.pid, child.create_time()) for child in children)


def main() -> None:
    config = Path(sys.argv[1])
    supervise(load_deployment(config), config, lambda phase: print(phase, flush=True), lambda _: None)


if __name__ == "__main__":
    main()
