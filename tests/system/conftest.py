"""The real thing: one deployment on Ray with the real models, for all system tests, taken down behind them."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from configs.deployment import DEFAULT_CONFIG
from configs.schema import read_yaml
from tests.support.cli import run_firstclause
from tests.support.net import free_port

START_S = 420


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache directory of the tests' own, with the prepared models in it: no other deployment is touched."""
    from configs.models import cache_dir

    folder = tmp_path_factory.mktemp("cache")
    (folder / "models").symlink_to(cache_dir() / "models")
    previous = os.environ.get("FIRSTCLAUSE_CACHE")
    os.environ["FIRSTCLAUSE_CACHE"] = str(folder)
    yield folder
    if previous is None:
        del os.environ["FIRSTCLAUSE_CACHE"]
    else:
        os.environ["FIRSTCLAUSE_CACHE"] = previous


@pytest.fixture(scope="session")
def config_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """configs/local.yaml on a free port."""
    data: dict[str, Any] = read_yaml(DEFAULT_CONFIG)
    data["http"]["port"] = free_port()
    path = tmp_path_factory.mktemp("config") / "test.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump(data, file)
    return path


class SharedDeployment:
    """Started when the first test asks for it, and down again when a test wants the machine for itself."""

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


@pytest.fixture(scope="session")
def shared_deployment(home: Path, config_file: Path) -> Iterator[SharedDeployment]:
    shared = SharedDeployment(config_file)
    yield shared
    shared.stop()


@pytest.fixture
def deployment(shared_deployment: SharedDeployment) -> str:
    """The base URL of the shared deployment."""
    return shared_deployment.url()


@pytest.fixture
def alone(shared_deployment: SharedDeployment) -> None:
    """No deployment runs while this test does."""
    shared_deployment.stop()
