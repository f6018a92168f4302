"""The LLM application: the gateway and the LLM server, configured from a deployment. No Ray import at load.

The engine is vLLM, the CPU build or the GPU's, by `device` alone.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from configs.deployment import Deployment, LlmConfig
from configs.schema import load
from planning.chunks import chunks
from planning.profile import Profile
from serve_apps.autoscaling_config import autoscaling_config
from serve_apps.routing import router_config

if TYPE_CHECKING:
    from ray.serve import Application
    from ray.serve.llm import LLMConfig

APP_NAME = "llm"
SERVER_PREFIX = "LLMServer:"


def engine_arguments(config: LlmConfig) -> dict[str, Any]:
    """vLLM's engine arguments. `config.engine` has the last word."""
    arguments: dict[str, Any] = {
        "dtype": config.dtype,
        "max_model_len": config.context_tokens,
        "max_num_seqs": config.max_num_seqs,
        "max_num_batched_tokens": config.max_num_batched_tokens,
        "enable_chunked_prefill": True,
        "enable_prefix_caching": True,
        "block_size": config.block_size,
        "scheduling_policy": "priority",
        "disable_log_stats": False,
        # cached_tokens in a reply's usage, which metering and the router's belief need
        "enable_prompt_tokens_details": True,
    }
    if config.kv_cache_bytes is not None:
        arguments["kv_cache_memory_bytes"] = config.kv_cache_bytes
    if config.device == "cpu":
        # torch.compile costs two minutes at start and gains nothing on a CPU
        arguments["enforce_eager"] = True
    return {**arguments, **config.engine}


def engine_environment(config: LlmConfig) -> dict[str, str]:
    """The engine processes' environment: nothing calls out, and a CPU engine has all the cores it is given."""
    environment = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if config.device == "cpu":
        environment |= {
            "VLLM_CPU_OMP_THREADS_BIND": config.cpu_cores,
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            # temperature > 0 without a seed would compile a sampler with g++ at the first request
            "TORCH_COMPILE_DISABLE": "1",
        }
    return environment


def llm_config(config: LlmConfig, model: Path, profile: Profile) -> "LLMConfig":
    """Ray Serve LLM's configuration of the model whose files are at `model`; `profile` is what it is routed by."""
    from ray.llm._internal.serve.core.configs.accelerators import CPUConfig, GPUConfig
    from ray.serve.llm import LLMConfig

    return LLMConfig(
        model_loading_config={"model_id": config.model, "model_source": str(model)},
        engine_kwargs=engine_arguments(config) | _chunked(config, profile),
        accelerator_config=CPUConfig(kind="cpu") if config.device == "cpu" else GPUConfig(kind="gpu"),
        deployment_config={
            **_replicas(config, profile),
            # Waiting is the engine's: it orders by priority. Far more than it runs is an error upstream.
            "max_ongoing_requests": 8 * config.max_num_seqs,
            "request_router_config": router_config(config, model, profile),
            "health_check_timeout_s": 60,
            "max_surge_percent": config.surge_percent,
            **({"placement_group_bundle_label_selector": [config.nodes]} if config.nodes else {}),
        },
        # The default batcher holds the first token back for 50 ms.
        experimental_configs={"stream_batching_interval_ms": 0},
        runtime_env={"env_vars": engine_environment(config)},
    )


def _chunked(config: LlmConfig, profile: Profile) -> dict[str, Any]:
    """The engine's chunk sizes, where an SLO sets them."""
    if config.step_slo_ms is None:
        return {}
    sizes = chunks(config.step_slo_ms, config.max_num_seqs, config.block_size, profile)
    return {"max_num_batched_tokens": sizes.step_tokens, "long_prefill_token_threshold": sizes.prompt_tokens}


def _long_tokens(engine: dict[str, Any]) -> int:
    """From how many prompt tokens on a prompt takes more than one step."""
    return int(engine.get("long_prefill_token_threshold") or engine["max_num_batched_tokens"])


def _replicas(config: LlmConfig, profile: Profile) -> dict[str, Any]:
    if config.scaling is None:
        return {"num_replicas": config.replicas}
    return {"autoscaling_config": autoscaling_config(config.scaling, profile)}


def server_name(config: LlmConfig) -> str:
    """The LLM servers' deployment in the application: Ray's name for a model behind a prefix of ours."""
    from ray.llm._internal.serve.core.server.builder import _get_deployment_name
    from ray.serve.llm import LLMConfig

    named = LLMConfig(model_loading_config={"model_id": config.model})
    return SERVER_PREFIX + str(_get_deployment_name(named))


def build(deployment: Deployment, model: Path) -> "Application":
    """The application, to be served under /v1: chat/completions, completions, models, models/{model}.

    Ray's ingress and server, each with what the gateway adds; at paths without the prefix, because / belongs to the
    voice application. Raises InputError where the gateway would answer anybody from elsewhere.
    """
    from ray import serve
    from ray.llm._internal.serve.core.configs.openai_api_models import to_model_metadata
    from ray.serve.llm import build_llm_deployment
    from ray.serve.llm.ingress import make_fastapi_ingress

    from serve_apps.gateway.ingress import ENDPOINTS, Gateway, application
    from serve_apps.llm_server import MeteredLLMServer

    config, gateway = deployment.llm, deployment.gateway
    gateway.check(deployment.http.host, deployment.http.loopback)
    profile = load(Profile, gateway.profile)
    ray_config = llm_config(config, model, profile)
    if gateway.otlp_endpoint is not None:
        ray_config.engine_kwargs.setdefault("otlp_traces_endpoint", gateway.otlp_endpoint)
    server = build_llm_deployment(
        ray_config,
        name_prefix=SERVER_PREFIX,
        deployment_cls=MeteredLLMServer,  # type: ignore[arg-type]  # awaited by Ray, as its own
        bind_kwargs={"books_url": gateway.store_url(), "profile": profile},
        # A replica that goes lets the longest reply end first.
        override_serve_options={"graceful_shutdown_timeout_s": gateway.max_stream_s},
    )
    ingress = serve.deployment(
        make_fastapi_ingress(Gateway, endpoint_map=ENDPOINTS, app=application(deployment)),
        num_replicas=gateway.replicas,
        # Waiting is the admission's: it knows whose turn it is.
        max_ongoing_requests=10_000,
        health_check_timeout_s=60,
        graceful_shutdown_timeout_s=gateway.max_stream_s,
    )
    bound: Application = ingress.bind(  # type: ignore[attr-defined]
        deployment=deployment,
        profile=profile,
        long_tokens=_long_tokens(ray_config.engine_kwargs),
        llm_deployments={config.model: server},
        model_cards={config.model: to_model_metadata(config.model, ray_config)},
    )
    return bound
