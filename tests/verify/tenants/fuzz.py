"""schemathesis against the gateway's own OpenAPI document, in an environment of its own."""

import subprocess
import sys
from pathlib import Path

from configs.models import cache_dir

REQUIREMENT = "schemathesis==4.32.5"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
)
"""Not positive_data_acceptance: what an engine's sampling parameters may be together is in no schema of vLLM's."""


def fuzz(url: str, examples: int, folder: Path | None = None) -> str:
    """What it found; empty where it found nothing."""
    tool = _environment(folder or cache_dir() / "peers") / "bin" / "schemathesis"
    done = subprocess.run(
        [
            str(tool), "run", f"{url}/v1/openapi.json", "--checks", ",".join(CHECKS), "--max-examples", str(examples),
            "--phases", "examples,fuzzing", "--request-timeout", "120", "--seed", "1", "--no-color",
        ],
        capture_output=True, text=True, timeout=1800, check=False,
    )  # fmt: skip
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _environment(peers: Path) -> Path:
    folder = peers / REQUIREMENT.replace("==", "-")
    if not (folder / ".installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(folder / "bin" / "pip"), "install", "--quiet", REQUIREMENT], check=True, timeout=900)
        (folder / ".installed").touch()
    return folder
