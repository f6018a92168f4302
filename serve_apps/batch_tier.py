"""The LLM tier of the same deployment as the batch worker sees it: who answers rows, and how callers fare beside them.

Light to import: the API's process holds these, and only the process that asks the engine needs all that it asks with.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ray import serve
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

from batch.harvest import Reading
from configs.tenants import PRIORITIES

if TYPE_CHECKING:
    from serve_apps.batch_engine import ServeEngine

READ_S = 2.0


@dataclass(frozen=True)
class ServeTier:
    """The tier of application `app`; `server`: its LLM servers' deployment."""

    app: str
    server: str
    model: str
    timeout_s: float
    priority: int = PRIORITIES["batch"]

    def engine(self, tenant: str) -> "ServeEngine":
        from serve_apps.batch_engine import ServeEngine

        return ServeEngine(self, tenant)

    def models(self) -> set[str]:
        return {self.model}


@dataclass(frozen=True)
class ServeCallers:
    """batch.harvest.Callers: each LLM server's own account of its callers."""

    app: str
    server: str

    def read(self) -> list[Reading] | None:
        try:
            handle = serve.get_deployment_handle(self.server, app_name=self.app)
            found = handle.broadcast("online").results(timeout_s=READ_S)
        except (RayError, RayServeException, TimeoutError):
            return None
        return [Reading(**reading) for reading in found] or None
