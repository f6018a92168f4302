"""The voice application with its real models and a scripted LLM, started once; and speech to call it with."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from loadtests.ports import free_port
from tests.support.llm import ScriptedLlm, scripted_llm

ROOT = Path(__file__).parents[2]
READY_S = 120


@pytest.fixture(scope="session")
def _llm() -> Iterator[ScriptedLlm]:
    with scripted_llm() as llm:
        yield llm


@pytest.fixture
def llm(_llm: ScriptedLlm) -> ScriptedLlm:
    """The scripted LLM behind `voice_url`, as new."""
    _llm.reset()
    return _llm


@pytest.fixture(scope="session")
def voice_url(_llm: ScriptedLlm) -> Iterator[str]:
    """A voice application without a greeting that takes two calls."""
    with voice_server(_llm.url, greeting="") as url:
        yield url


@pytest.fixture(scope="session")
def greeting_url(_llm: ScriptedLlm) -> Iterator[str]:
    """One that greets at length."""
    greeting = "Hello and welcome. I could talk about myself for quite a while if you let me."
    with voice_server(_llm.url, greeting) as url:
        yield url


class voice_server:
    """A context in which tests.support.voice_server runs as a process."""

    def __init__(self, llm_url: str, greeting: str, calls: int = 2) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        arguments = ["--port", str(port), "--llm", llm_url, "--greeting", greeting, "--calls", str(calls)]
        self._command = [sys.executable, "-m", "tests.support.voice_server", *arguments]

    def __enter__(self) -> str:
        self._process = subprocess.Popen(self._command, cwd=ROOT, env=os.environ | {"LOGURU_LEVEL": "INFO"})
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, "the voice server died; its error stands above"
            try:
                httpx.get(f"{self.url}/voice/settings", timeout=5, trust_env=False).raise_for_status()
                return self.url
            except httpx.HTTPError:
                time.sleep(0.2)
        raise AssertionError("the voice server did not come up")

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait(30)
