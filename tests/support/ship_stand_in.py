"""Deploys the stand-in as `firstclause deploy` deploys the product; prints the outcome as JSON.

python -m tests.support.ship_stand_in CODE '{"version": "1", "replicas": 2}' [--deadline-s 60] [--needs JSON]
"""

import argparse
import json
import shutil
import sys
from pathlib import Path

from serve_apps.deploying.client import DeployError, deploy
from serve_apps.deploying.plan import Needs, Plan

ROOT = Path(__file__).parents[2]


def plan(arguments: dict[str, object], needs: dict[str, object], deadline_s: float) -> Plan:
    application = {
        "name": "stand-in",
        "route_prefix": "/",
        "import_path": "stand_in:build",
        "args": arguments,
    }
    serve = {
        "proxy_location": "EveryNode",
        "http_options": {"host": "0.0.0.0", "port": 8000},
        "applications": [application],
    }
    wanted = {"python": "3.11", "packages": {}} | needs
    return Plan(serve=serve, needs=Needs.model_validate_json(json.dumps(wanted)), deadline_s=deadline_s)


def code(folder: Path) -> Path:
    """What is sent: the parts of the product that deploy, and the stand-in."""
    for part in ("configs", "serve_apps"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(Path(__file__).with_name("stand_in.py"), folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("code", type=Path)
    parser.add_argument("arguments", type=json.loads)
    parser.add_argument("--deadline-s", type=float, default=120)
    parser.add_argument("--needs", type=json.loads, default={})
    parser.add_argument("--address", default="http://127.0.0.1:8265")
    asked = parser.parse_args()
    try:
        outcome = deploy(
            asked.address, plan(asked.arguments, asked.needs, asked.deadline_s),
            lambda line: print(line, file=sys.stderr, flush=True), asked.code,
        )  # fmt: skip
    except DeployError as error:
        outcome = {"outcome": "failed", "problems": [str(error)]}
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
