"""The batch API on its own: a store, contents and a server in this process."""

from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from starlette.types import Receive, Scope, Send

from batch.api import batches_api, files_api
from batch.files import Contents
from batch.store import Store, migrate
from configs.batch import BatchConfig
from configs.tenants import UnknownKey
from tests.support.net import served


class Clock:
    """Seconds since 1970 that a test moves."""

    def __init__(self) -> None:
        self.now_s = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def database(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/batch.db"
    migrate(url)
    return url


@pytest.fixture
def store(database: str, clock: Clock) -> Store:
    return Store(database, clock)


@pytest.fixture
def contents(tmp_path: Path) -> Contents:
    return Contents(str(tmp_path / "batch"))


def identify(authorization: str | None) -> str:
    """Keys are names here."""
    name = (authorization or "").removeprefix("Bearer ")
    if name not in ("alice", "bob"):
        raise UnknownKey
    return name


@pytest.fixture
def api_url(store: Store, contents: Contents) -> Iterator[str]:
    """The API's base URL; a file has at most 1 MB."""
    config = BatchConfig(max_file_bytes=1_000_000)
    applications = {
        "/v1/files": files_api(store, contents, config, identify),
        "/v1/batches": batches_api(store, identify, lambda: None),
    }

    async def api(scope: Scope, receive: Receive, send: Send) -> None:
        """The longest prefix, as Serve routes."""
        prefix = next(prefix for prefix in applications if scope["path"].startswith(prefix))
        await applications[prefix](scope | {"root_path": prefix}, receive, send)

    with served(api, lifespan="off") as url:
        yield f"{url}/v1"


@pytest.fixture
def alice(api_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=api_url, api_key="alice", max_retries=0, timeout=30) as client:
        yield client


@pytest.fixture
def bob(api_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=api_url, api_key="bob", max_retries=0, timeout=30) as client:
        yield client
