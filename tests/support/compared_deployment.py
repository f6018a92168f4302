"""A deployment of the LLM alone, with tests.support.compared_routers in front of its replicas.

    python -m tests.support.compared_deployment CONFIG.yaml     in the foreground, until SIGTERM

Ray is not imported here: it takes its token from what `local.start` sets.
"""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from configs.deployment import load_deployment
from serve_apps import running
from tests.support.cli import ROOT


@contextmanager
def compared_deployment(config: Path, within_s: float = 900.0) -> Iterator[str]:
    """The URL of a deployment of `config` with these routers, for as long as the `with`."""
    with tempfile.NamedTemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.compared_deployment", str(config)], cwd=ROOT, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + within_s
            while (record := running.read()) is None or not record.serving:
                assert process.poll() is None, Path(log.name).read_text(errors="replace")[-3000:]
                assert time.monotonic() < deadline, "the deployment does not come up"
                time.sleep(0.5)
            yield record.url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(180)


def main() -> None:
    from serve_apps import llm, supervisor
    from serve_apps.applications import llm_alone

    given = llm.router_config

    def compared(*arguments: Any) -> dict[str, Any]:
        return given(*arguments) | {"request_router_class": "tests.support.compared_routers:ComparedRouter"}

    llm.router_config = compared
    config = Path(sys.argv[1])
    supervisor.supervise(load_deployment(config), config, print, lambda _: None, llm_alone())


if __name__ == "__main__":
    main()
