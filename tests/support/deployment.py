"""A deployment of one's own: its own cache folder (the prepared models linked in), its own port."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from configs.deployment import DEFAULT_CONFIG
from configs.models import cache_dir
from loadtests.private_config import on_a_free_port
from tests.support.cli import run_firstclause

START_S = 420


@contextmanager
def own_cache(folder: Path) -> Iterator[Path]:
    """FIRSTCLAUSE_CACHE is `folder` for a while; the models are the ones that are prepared already."""
    (folder / "models").symlink_to(cache_dir() / "models")
    previous = os.environ.get("FIRSTCLAUSE_CACHE")
    os.environ["FIRSTCLAUSE_CACHE"] = str(folder)
    try:
        yield folder
    finally:
        if previous is None:
            del os.environ["FIRSTCLAUSE_CACHE"]
        else:
            os.environ["FIRSTCLAUSE_CACHE"] = previous


def config_on_a_free_port(folder: Path, llm: Mapping[str, Any] = MappingProxyType({})) -> Path:
    """configs/local.yaml with another port and these settings of the LLM, as a file in `folder`."""
    return on_a_free_port(DEFAULT_CONFIG, {"llm": llm}, folder / "test.yaml")


class Deployment:
    """Started when its URL is first asked for; `stop` ends it, and asking again starts it anew."""

    def __init__(self, config_file: Path) -> None:
        self._config_file = config_file
        self._url: str | None = None

    def url(self) -> str:
        """The base URL, after starting it if need be."""
        if self._url is None:
            started = run_firstclause("up", "--config", str(self._config_file), timeout_s=START_S)
            assert started.returncode == 0, started.stderr
            self._url = str(json.loads(run_firstclause("status", "--json").stdout)["url"])
        return self._url

    def stop(self) -> None:
        if self._url is not None:
            self._url = None
            stopped = run_firstclause("down", timeout_s=120)
            assert stopped.returncode == 0, stopped.stderr


@contextmanager
def own_deployment(llm: Mapping[str, Any] = MappingProxyType({})) -> Iterator[str]:
    """The base URL of a deployment that lives as long as the `with`; `llm`: settings of the LLM that differ."""
    with tempfile.TemporaryDirectory() as name, own_cache(Path(name)) as folder:
        deployment = Deployment(config_on_a_free_port(folder, llm))
        try:
            yield deployment.url()
        finally:
            deployment.stop()
