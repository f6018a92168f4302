"""What a cluster has and what a plan's applications take, asked of Ray from a job inside the cluster."""

import importlib.metadata
import json
import os
import platform
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from configs.errors import InputError
from configs.models import prepared
from serve_apps.certificate import certificate_problem
from serve_apps.deploying.fit import Node, Piece, Resources
from serve_apps.deploying.plan import Needs, Plan

ASK_TIMEOUT_S = 120


def nodes_of(needs: Needs) -> list[Node]:
    """Every live node, asked for itself by a task on it. A node that does not answer has no versions."""
    alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    ask = ray.remote(num_cpus=0, max_retries=0)(_about_itself)
    asked = {
        node["NodeID"]: ask.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(needs.model_dump(mode="json"))
        for node in alive
    }
    ready, _ = ray.wait(list(asked.values()), num_returns=len(asked), timeout=ASK_TIMEOUT_S)
    return [
        Node(
            node["NodeManagerAddress"],
            {kind: amount for kind, amount in node["Resources"].items() if not kind.startswith(("node:", "memory"))},
            node["Labels"],
            **(ray.get(asked[node["NodeID"]]) if asked[node["NodeID"]] in ready else {"python": "does not answer"}),
        )
        for node in alive
    ]


def pieces_of(plan: Plan) -> Iterator[Piece]:
    """The replicas of every application, built as Serve will build them. Raises what a builder raises."""
    from ray.serve._private.build_app import build_app

    for config in plan.serve["applications"]:
        module, function = config["import_path"].split(":")
        application = getattr(import_module(module), function)(config.get("args", {}))
        built = build_app(application, name=config["name"])
        for deployment in built.deployments:
            yield _piece(f"{config['name']}: {deployment.name}", deployment)


def _piece(name: str, deployment: Any) -> Piece:
    options = deployment.ray_actor_options or {}
    bundles = deployment._replica_config.placement_group_bundles
    selectors = deployment._replica_config.placement_group_bundle_label_selector or [{}]
    labels = selectors[0] if bundles else options.get("label_selector") or {}
    scaling = deployment._deployment_config.autoscaling_config
    replicas = scaling.min_replicas if scaling else deployment.num_replicas
    return Piece(name, replicas, tuple(bundles or [_resources(options)]), dict(labels))


def _resources(options: dict[str, Any]) -> Resources:
    named = {"CPU": options.get("num_cpus", 1), "GPU": options.get("num_gpus", 0), **options.get("resources", {})}
    return {kind: float(amount) for kind, amount in named.items() if amount}


def _about_itself(asked: dict[str, Any]) -> dict[str, Any]:
    needs = Needs.model_validate_json(json.dumps(asked))
    tls, now = needs.tls, datetime.now(UTC)
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "packages": {name: _version(name) for name in (*needs.packages, *needs.engine)},
        "missing_models": tuple(name for name in needs.models if not _is_prepared(name)),
        "certificate": certificate_problem(tls.certificate, tls.key, now) if tls else None,
        "missing_secrets": tuple(name for name in needs.secrets if not os.environ.get(name)),
    }


def _is_prepared(model: str) -> bool:
    try:
        prepared(model)
    except InputError:
        return False
    return True


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
