"""The real thing: one deployment on Ray with the real models, for all system tests, taken down behind them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.deployment import Deployment, config_on_a_free_port, own_cache


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache directory of the tests' own: no other deployment is touched."""
    with own_cache(tmp_path_factory.mktemp("cache")) as folder:
        yield folder


@pytest.fixture(scope="session")
def config_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """configs/local.yaml on a free port."""
    return config_on_a_free_port(tmp_path_factory.mktemp("config"))


@pytest.fixture(scope="session")
def shared_deployment(home: Path, config_file: Path) -> Iterator[Deployment]:
    shared = Deployment(config_file)
    yield shared
    shared.stop()


@pytest.fixture
def deployment(shared_deployment: Deployment) -> str:
    """The base URL of the shared deployment."""
    return shared_deployment.url()


@pytest.fixture
def alone(shared_deployment: Deployment) -> None:
    """No deployment runs while this test does."""
    shared_deployment.stop()
