"""A Ray cluster of several nodes on this machine, each in a network namespace: own address, own ports, one token."""

import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from serve_apps.quiet import QUIET
from tests.support.cli import ROOT
from tests.support.namespaces import Host, Network, network

READY_S = 90
GCS_PORT = 6379
DASHBOARD = "http://127.0.0.1:8265"


class Cluster:
    """A head, the nodes that were added, and a caller's machine beside them."""

    def __init__(self, net: Network, folder: Path) -> None:
        self.folder = folder
        self.token = secrets.token_hex(16)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAY_")},
            **QUIET,
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "RAY_raylet_start_wait_time_s": "120",  # a busy machine is slow to start a node
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": self.token,
        }
        self._net = net
        self.caller = net.host("caller")
        self.nodes: dict[str, Host] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def head(self) -> Host:
        return self.nodes["head"]

    def add(self, name: str, cpus: int, labels: dict[str, str] | None = None, **environment: str) -> Host:
        """Start one more node; the first is the head. Returns when the cluster counts it."""
        host = self._net.host(name)
        if self.nodes:
            role = [f"--address={self.head.address}:{GCS_PORT}"]
        else:
            role = ["--head", f"--port={GCS_PORT}", "--dashboard-host=127.0.0.1"]
        shown = ",".join(f"{key}={value}" for key, value in (labels or {}).items())
        self.nodes[name] = host
        with (self.folder / f"{name}.out").open("wb") as output:
            self._processes[name] = subprocess.Popen(
                host.command(
                    sys.executable, "-m", "ray.scripts.scripts", "start", *role, "--block", f"--num-cpus={cpus}",
                    f"--node-ip-address={host.address}", "--object-store-memory=80000000", f"--labels={shown}",
                    f"--temp-dir={self.folder / name}",  # of its own: else one node's clean-up takes another's code
                ),
                env=self.environment | environment, cwd=self.folder, start_new_session=True,
                stdout=output, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.wait_for(lambda: self.alive() >= len(self.nodes), f"node {name}")
        return host

    def kill(self, name: str) -> None:
        """A node is gone, at once."""
        self.nodes.pop(name).power_off()
        self._processes.pop(name).wait()

    def alive(self) -> int:
        """How many nodes the head counts."""
        try:
            shown = self.get(f"{DASHBOARD}/nodes?view=summary")["data"]["summary"]
        except (httpx.HTTPError, ValueError):
            return 0
        return sum(node["raylet"].get("state") == "ALIVE" for node in shown)

    def serve(self) -> dict[str, Any]:
        """What Ray Serve says of itself."""
        return self.get(f"{DASHBOARD}/api/serve/applications/")

    def get(self, url: str) -> dict[str, Any]:
        """JSON from the head's own loopback, with the token."""
        bearer = {"Authorization": f"Bearer {self.token}"}
        answer = self.head.inside(lambda: httpx.get(url, headers=bearer, timeout=20, trust_env=False))
        answer.raise_for_status()
        document: dict[str, Any] = answer.json()
        return document

    def run(self, *words: str, timeout_s: float = 300, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the head."""
        return subprocess.run(
            self.head.command(*words), env=self.environment | environment, cwd=ROOT, capture_output=True, text=True,
            timeout=timeout_s, check=False,
        )  # fmt: skip

    def wait_for(self, done: Any, what: str, timeout_s: float = READY_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not done():
            dead = [name for name, process in self._processes.items() if process.poll() is not None]
            assert not dead, "\n".join((self.folder / f"{name}.out").read_text() for name in dead)
            assert time.monotonic() < deadline, f"waited {timeout_s:.0f} s in vain for {what}"
            time.sleep(0.3)

    def close(self) -> None:
        for host in self.nodes.values():
            host.power_off()
        for process in self._processes.values():
            process.wait()


@contextmanager
def cluster(number: int = 0) -> Iterator[Cluster]:
    """A cluster without nodes yet, gone afterwards with all that ran on it."""
    folder = Path(tempfile.mkdtemp(prefix="fcray"))  # a short path: sockets lie under it
    try:
        with network(number) as net:
            made = Cluster(net, folder)
            try:
                yield made
            finally:
                made.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
