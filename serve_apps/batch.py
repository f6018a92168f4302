"""The batch API on Ray Serve: two applications, /v1/files and /v1/batches, over one store. Light: a job costs nothing
before there is one (batch.crew)."""

from fastapi import FastAPI
from ray import serve

from batch.api import batches_api, files_api
from batch.crew import Crew
from batch.engine import HttpTier, Tier
from batch.files import Contents
from batch.harvest import HarvestShare
from batch.share import FixedShare, ShareMaker
from batch.store import Store, migrate
from configs.deployment import Deployment
from configs.tenants import TenantsFiles
from planning.policies.harvest import HarvestConfig
from serve_apps import llm

FILES, BATCHES = "files", "batches"


class _Keys:
    """Who calls: the gateway's tenants and rules."""

    def __init__(self, deployment: Deployment) -> None:
        self._open = deployment.gateway.is_open(deployment.http.loopback)
        self._tenants = TenantsFiles(deployment.gateway.tenants)

    def __call__(self, authorization: str | None) -> str:
        return self._tenants.current().identify(authorization, self._open).name


@serve.deployment(name="BatchFiles")
@serve.ingress()
class FilesApp:
    """/v1/files."""

    def __init__(self, deployment: Deployment) -> None:
        config = deployment.batch
        store, contents = Store(config.database_url()), Contents(config.files_url())
        self._api = files_api(store, contents, config, _Keys(deployment))

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self._api


@serve.deployment(name="Batches")
@serve.ingress()
class BatchesApp:
    """/v1/batches; wakes the worker."""

    def __init__(self, deployment: Deployment, server: str) -> None:
        config = deployment.batch
        self._crew = Crew(config, _tier(deployment, server), _share(deployment, server))
        self._api = batches_api(Store(config.database_url()), _Keys(deployment), self._crew.wake)

    def __serve_build_asgi_app__(self) -> FastAPI:
        return self._api

    def __del__(self) -> None:
        self._crew.close()


def build_files(deployment: Deployment) -> serve.Application:
    """The application for /v1/files. Brings the store's tables up to date."""
    migrate(deployment.batch.database_url())
    application: serve.Application = FilesApp.options(**_OPTIONS).bind(deployment)  # type: ignore[attr-defined]
    return application


def build_batches(deployment: Deployment) -> serve.Application:
    """The application for /v1/batches, after that for /v1/files."""
    server = llm.server_name(deployment.llm)
    application: serve.Application = BatchesApp.options(**_OPTIONS).bind(deployment, server)  # type: ignore[attr-defined]
    return application


_OPTIONS = {"num_replicas": 1, "max_ongoing_requests": 64, "ray_actor_options": {"num_cpus": 0}}


def _tier(deployment: Deployment, server: str) -> Tier:
    config = deployment.batch
    if config.engine_url is not None:
        return HttpTier(config.engine_url, config.row_timeout_s)
    from serve_apps.batch_tier import ServeTier

    return ServeTier(llm.APP_NAME, server, deployment.llm.model, config.row_timeout_s)


def _share(deployment: Deployment, server: str) -> ShareMaker:
    """What callers leave; all there is where the rows go elsewhere."""
    from serve_apps.batch_tier import ServeCallers

    config = deployment.batch
    if config.engine_url is not None:
        return FixedShare(deployment.rows_in_flight)
    return HarvestShare(policy(deployment), config.harvest.interval_s, ServeCallers(llm.APP_NAME, server))


def policy(deployment: Deployment) -> HarvestConfig:
    """How this deployment's rows are let in beside its callers."""
    limits, ceiling = deployment.batch.harvest, deployment.rows_in_flight
    return HarvestConfig(
        target_ttft_ms=limits.target_ttft_ms, start=min(limits.start, ceiling), floor=limits.floor, ceiling=ceiling,
        add=max(1.0, ceiling / 8), settle_s=limits.settle_s,
    )  # fmt: skip
