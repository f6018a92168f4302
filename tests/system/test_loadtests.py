"""`firstclause loadtest` against the running deployment: everything is answered, and the gates' counts hold."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.system

LLM_GATE = """
minimum_samples: 4
checks:
  - {metric: failure, at_most: 0}
  - {metric: output_tokens, statistic: min, at_least: 1}
"""
VOICE_GATE = """
minimum_samples: 2
checks:
  - {metric: failure, at_most: 0, minimum_samples: 1}
  - {metric: unanswered, at_most: 0}
  - {metric: apologised, at_most: 0}
  - {metric: doubled, at_most: 0}
  - {metric: wer_reply, at_most: 0.5}
"""


def loadtest(user: str, url: str, gate: str, folder: Path, *sets: str) -> dict[str, Any]:
    (folder / "gate.yaml").write_text(gate)
    options = [option for text in sets for option in ("--set", text)]
    done = subprocess.run(
        [
            sys.executable, "-c", "from cli.main import main; main()", "loadtest", user, "--url", url, "--json",
            "--gate", str(folder / "gate.yaml"), "--out", str(folder / "out"), *options,
        ],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert document["gate"]["verdict"] == "pass"
    assert "</figure>" in (folder / "out" / "report.html").read_text(encoding="utf-8")
    return document


def test_llm(deployment: str, tmp_path: Path) -> None:
    document = loadtest(
        "llm", deployment, LLM_GATE, tmp_path, "arrivals={kind: constant, rate_per_s: 0.5, duration_s: 4}", "turns=2",
        "output_tokens={mean: 8}", "late_ms=1000",
    )  # fmt: skip
    assert document["outcomes"] == {"ok": 4}
    assert document["not_sent"] == 0


def test_voice(deployment: str, tmp_path: Path) -> None:
    document = loadtest(
        "voice", deployment, VOICE_GATE, tmp_path, "arrivals={kind: constant, rate_per_s: 1, duration_s: 1}", "turns=2",
        "late_ms=1000", "late_share_max=0.5",
    )  # fmt: skip
    assert document["voice"]["turns"] == 2
    assert document["voice"]["response_ms"]["p50"] > 0
