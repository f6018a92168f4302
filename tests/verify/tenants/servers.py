"""vLLM's own server beside a deployment, and what it says of itself."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from configs.deployment import LlmConfig
from configs.models import prepared
from loadtests.ports import free_port
from serve_apps.llm import engine_arguments, engine_environment

READY_S = 300


@contextmanager
def bare_vllm(config: LlmConfig) -> Iterator[str]:
    """vLLM's own OpenAI server with the same model and engine arguments; its URL."""
    port = free_port()
    options = engine_arguments(config)
    words = [
        f"--{name.replace('_', '-')}" if value is True else f"--{name.replace('_', '-')}={value}"
        for name, value in options.items()
        if value is not False
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(prepared(config.model)),
         "--served-model-name", config.model, "--host", "127.0.0.1", "--port", str(port),
         "--disable-uvicorn-access-log", *words],
        env={**os.environ, **engine_environment(config)}, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + READY_S
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError("bare vLLM died; its error stands above")
            try:
                if httpx.get(f"{url}/health", trust_env=False).is_success:
                    break
            except httpx.HTTPError:
                time.sleep(0.5)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def engine_ttft_sum_ms(url: str) -> float:
    """The sum of the bare server's engine TTFTs so far, by its own histogram."""
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    found = re.search(r"^vllm:time_to_first_token_seconds_sum\{[^}]*\} (\S+)", text, re.MULTILINE)
    return float(found[1]) * 1000 if found else 0.0
