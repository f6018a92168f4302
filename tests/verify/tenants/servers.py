"""A deployment of its own, and vLLM's own server beside it."""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from ruamel.yaml import YAML

from configs.deployment import DEFAULT_CONFIG, LlmConfig
from configs.models import prepared
from configs.schema import read_yaml
from serve_apps.llm import engine_arguments, engine_environment
from tests.support.deployment import Deployment, own_cache
from tests.support.net import free_port

READY_S = 300


@contextmanager
def deployment(changes: dict[str, Any]) -> Iterator[str]:
    """A deployment of its own with other LLM settings; its URL."""
    with tempfile.TemporaryDirectory() as name, own_cache(Path(name)) as folder:
        data: dict[str, Any] = read_yaml(DEFAULT_CONFIG)
        data["http"]["port"] = free_port()
        data["llm"] |= changes
        path = folder / "verify.yaml"
        with path.open("w") as file:
            YAML(typ="safe").dump(data, file)
        running = Deployment(path)
        try:
            yield running.url()
        finally:
            running.stop()


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
