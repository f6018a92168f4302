"""What one deployment runs: the file behind `firstclause up --config`."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from configs.batch import BatchConfig
from configs.fleet import Access, Retention, Rollout, Tier, Tls
from configs.gateway import GatewayConfig
from configs.routing import RoutingConfig
from configs.scaling import ScalingConfig
from configs.schema import Frozen, load
from configs.voice import VoiceConfig

DEFAULT_CONFIG = Path(__file__).parent / "local.yaml"
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")
EVERY_HOST = ("0.0.0.0", "::")


class HttpConfig(Frozen):
    """Where the applications are served."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] = 8000
    tls: Tls | None = None
    """None: plain HTTP, for loopback or behind something that ends TLS."""

    @property
    def loopback(self) -> bool:
        return self.host in LOOPBACK_HOSTS

    @property
    def inside_url(self) -> str:
        """The base URL for a process on a node that serves HTTP, itself included."""
        host = "127.0.0.1" if self.host in EVERY_HOST else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}"


class LlmConfig(Tier):
    """The LLM tier. `device` decides the engine's defaults; `engine` passes any vLLM engine argument through."""

    model: str = "smollm2-135m-instruct-w8a8"
    """A model of configs/models.yaml; also its name in the API."""
    device: Literal["cpu", "cuda"] = "cpu"
    replicas: Annotated[int, Field(ge=1, le=10_000)] = 1
    context_tokens: Annotated[int, Field(ge=128, le=1_048_576)] = 2048
    max_num_seqs: Annotated[int, Field(ge=1, le=4096)] = 16
    max_num_batched_tokens: Annotated[int, Field(ge=16, le=1_048_576)] = 256
    """Tokens of one engine step: it bounds how long a caller waits behind somebody else's prompt."""
    step_slo_ms: Annotated[float, Field(gt=0)] | None = None
    """The longest step there should be: sets the tokens of a step, and a long prompt's part of it (planning.chunks)."""
    block_size: Annotated[int, Field(ge=8, le=256)] = 32
    """Tokens of a prefix-cache block: a spoken question fills one."""
    kv_cache_bytes: Annotated[int, Field(ge=1_048_576)] | None = 1_073_741_824
    """KV memory of a replica; None leaves it to the engine, which takes what is free."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    cpu_cores: str = "0-1"
    """The cores that a CPU engine binds its threads to."""
    engine: dict[str, Any] = Field(default_factory=dict)
    routing: RoutingConfig = RoutingConfig()
    scaling: ScalingConfig | None = None
    """None: `replicas` of them, always. Else their number follows the load, and starts at its least."""

    @property
    def seats(self) -> int:
        """Requests that the tier's engines run at once."""
        return self.replicas * self.max_num_seqs


class RayConfig(Frozen):
    """The local cluster that `up` starts."""

    num_cpus: Annotated[int, Field(ge=1, le=1024)] = 8
    """Logical CPUs: what the applications ask for adds up to less. They say nothing of real cores."""
    object_store_bytes: Annotated[int, Field(ge=78_643_200)] = 200_000_000


class Deployment(Frozen):
    """Everything that `firstclause up` starts."""

    http: HttpConfig = HttpConfig()
    ray: RayConfig = RayConfig()
    llm: LlmConfig = LlmConfig()
    gateway: GatewayConfig = GatewayConfig()
    voice: VoiceConfig
    batch: BatchConfig = BatchConfig()
    access: Access = Access()
    rollout: Rollout = Rollout()
    retention: Retention = Retention()

    @property
    def rows_in_flight(self) -> int:
        """The most batch rows that the tier is given at once."""
        return self.batch.ceiling(self.llm.seats)

    @property
    def login(self) -> bool:
        """Whether the page asks for a signed link."""
        return self.access.login == "link" or (self.access.login is None and not self.http.loopback)


def load_deployment(path: Path = DEFAULT_CONFIG) -> Deployment:
    """The deployment in a file. Raises InputError naming key and value."""
    return load(Deployment, path)
