"""A voice application with faked models: what the page does is real, what it hears is a tone."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from loadtests.ports import free_port

ROOT = Path(__file__).parents[3]
READY_S = 60


class FakeServer:
    """A process; `url` stays the same when it is started anew."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.support.fake_voice_server", "--port", str(self.port)]
        self._process = subprocess.Popen(command, cwd=ROOT, env=os.environ | {"LOGURU_LEVEL": "INFO"})
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, "the server died; its error stands above"
            try:
                httpx.get(f"{self.url}/voice/settings", timeout=5, trust_env=False).raise_for_status()
                return
            except httpx.HTTPError:
                time.sleep(0.1)
        raise AssertionError("the server did not come up")

    def kill(self) -> None:
        """End it without a goodbye, as a power cut does."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@pytest.fixture(scope="module")
def fake_url() -> Iterator[str]:
    """A server that takes one call."""
    server = FakeServer()
    server.start()
    yield server.url
    server.kill()


@pytest.fixture
def mortal() -> Iterator[FakeServer]:
    """A server that a test may kill."""
    server = FakeServer()
    server.start()
    yield server
    server.kill()


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait until something holds, for a minute at most."""

    def wait(holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not holds():
            assert time.monotonic() < deadline
            time.sleep(0.1)

    return wait
