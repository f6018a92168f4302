"""The gateway in front of the LLM tier: who may call, how much at once, where its books are."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from configs.errors import InputError
from configs.schema import Frozen
from configs.state import state_dir
from configs.tenants import TENANTS_YAML, TenantsFiles

CONFIGS = Path(__file__).parent
UNSTATED_OUTPUT_TOKENS = 256
"""What a reply without max_tokens is reckoned at where no configuration says."""


class GatewayConfig(Frozen):
    """`firstclause up --config`'s `gateway`."""

    tenants: Path = TENANTS_YAML
    open: bool | None = None
    """Whether it answers without a key. None: on a loopback address only. Behind a proxy, set it to false."""
    replicas: Annotated[int, Field(ge=1, le=1000)] = 1
    store: str | None = None
    """SQLAlchemy's URL of quotas and usage, one for all gateways; None: gateway.db in the state directory."""
    profile: Path = CONFIGS / "plans" / "profiles" / "smollm2-135m-two-cores.yaml"
    """The replica's measured rates (`firstclause profile` writes such a file): what a request is charged by."""
    prices: Path = CONFIGS / "plans" / "price.yaml"
    """The scenario whose price list `firstclause usage` bills by."""
    max_body_bytes: Annotated[int, Field(ge=1024)] = 2_097_152
    max_queue_s: Annotated[float, Field(gt=0)] = 120
    """How long a request may wait for admission before it is told to come again."""
    unstated_output_tokens: Annotated[int, Field(ge=1)] = UNSTATED_OUTPUT_TOKENS
    """What a reply without max_tokens is reckoned at until it is measured."""
    max_stream_s: Annotated[float, Field(gt=0)] = 600
    """The longest reply, and so what a scale-down or a rollout waits for."""
    otlp_endpoint: str | None = None
    """Where spans go (OTLP over gRPC), gateway to engine; None: nowhere."""

    def store_url(self) -> str:
        return self.store or f"sqlite:///{state_dir() / 'gateway.db'}"

    def is_open(self, loopback: bool) -> bool:
        """Whether it answers without a key, on a loopback address or another."""
        return loopback if self.open is None else self.open

    def check(self, host: str, loopback: bool) -> None:
        """Raises InputError where the gateway would answer anybody from elsewhere, or nobody at all."""
        if loopback:
            return
        if self.open:
            raise InputError("deployment", "gateway.open", True, f"http.host = {host} is not loopback: it needs keys")
        if not TenantsFiles(self.tenants).current().has_keys:
            problem = "refused without keys on another address than loopback; run: firstclause tenants add NAME"
            raise InputError("deployment", "http.host", host, problem)
