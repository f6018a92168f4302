"""The applications of a deployment, by name: what `up` runs here and `deploy` has a cluster build.

Ray Serve imports a builder by its path and hands it the deployment as plain data, on any node of the cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.budgets import load_budget
from configs.deployment import Deployment, HttpConfig
from configs.models import prepared
from configs.schema import parse

if TYPE_CHECKING:
    from ray.serve import Application


@dataclass(frozen=True)
class Served:
    """An application: where it is served, and who builds it."""

    name: str
    route_prefix: str
    loading: str
    """What its start-up takes most of its time with, for the progress line."""
    build: Callable[[dict[str, Any]], "Application"]
    awaited: bool = True
    """Whether a later one waits until this one serves; it needs nobody and is up long before they are, if not."""

    @property
    def import_path(self) -> str:
        return f"{self.build.__module__}:{self.build.__name__}"


def llm_alone() -> tuple[Served, ...]:
    """The LLM tier without the others."""
    return tuple(served for served in APPLICATIONS if served.build is build_llm)


def models_of(deployment: Deployment) -> dict[str, Path]:
    """Use -> the prepared model's folder on this machine. Raises InputError."""
    return {
        "llm": prepared(deployment.llm.model),
        "asr": prepared(deployment.voice.hearing.model),
        "tts": prepared(deployment.voice.speaking.model),
    }


def http_options(http: HttpConfig) -> dict[str, Any]:
    """Where Serve's proxies serve, as its config file and its API take it."""
    options: dict[str, Any] = {"host": http.host, "port": http.port}
    if http.tls:
        options |= {"ssl_certfile": str(http.tls.certificate), "ssl_keyfile": str(http.tls.key)}
    return options


def build_llm(data: dict[str, Any]) -> "Application":
    from serve_apps import llm

    deployment = _deployment(data)
    return llm.build(deployment, models_of(deployment)["llm"])


def build_voice(data: dict[str, Any]) -> "Application":
    from serve_apps import voice

    deployment = _deployment(data)
    return voice.build(deployment, load_budget(), models_of(deployment))


def build_files(data: dict[str, Any]) -> "Application":
    from serve_apps import batch

    return batch.build_files(_deployment(data))


def build_batches(data: dict[str, Any]) -> "Application":
    from serve_apps import batch

    return batch.build_batches(_deployment(data))


APPLICATIONS = (
    Served("files", "/v1/files", "the batch API", build_files, awaited=False),
    Served("batches", "/v1/batches", "the batch API", build_batches, awaited=False),
    Served("llm", "/v1", "the LLM", build_llm),
    Served("voice", "/", "the voice models", build_voice),
)
"""In the order of their start: a later one may call an earlier one."""


def _deployment(data: dict[str, Any]) -> Deployment:
    return parse(Deployment, data, "the deployment's arguments")
