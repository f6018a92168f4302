"""The command as a user runs it: a process of its own."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_firstclause(*arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """Run `firstclause` with this interpreter; stdout and stderr as text."""
    return subprocess.run(
        [sys.executable, "-c", "from cli.main import main; main()", *arguments],
        cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False,
    )  # fmt: skip
