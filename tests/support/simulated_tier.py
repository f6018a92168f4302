"""What the simulator says of a real run of one replica's LLM tier: the same requests, the measured rates."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from configs.schema import parse
from planning.simulator.run import run
from planning.simulator.scenario import Scenario


@dataclass(frozen=True)
class Ttft:
    """Of a run's requests, from the due moment (ms)."""

    mean_ms: float
    p95_ms: float

    def error(self, truth: "Ttft") -> tuple[float, float]:
        """Relative, of mean and p95."""
        return self.mean_ms / truth.mean_ms - 1, self.p95_ms / truth.p95_ms - 1


def measured_ttft(samples: Iterable[dict[str, Any]]) -> Ttft:
    """What the load generator saw. Raises ValueError if any request failed: the rest is another load then."""
    ttft_ms = []
    for sample in samples:
        if sample["outcome"] != "ok":
            raise ValueError(f"a request ended as {sample['outcome']}: {sample['detail']}")
        ttft_ms.append((sample["first_token_s"] - sample["due_s"]) * 1000)
    return Ttft(float(np.mean(ttft_ms)), float(np.percentile(ttft_ms, 95)))


def simulated_ttft(samples: Sequence[dict[str, Any]], profile: dict[str, Any], folder: Path) -> Ttft:
    """What the simulator says of the same arrivals and lengths on one replica with this measured profile.

    The template's beginning, which all prompts share, is in the prefix cache as the server reported it; what passes
    outside the engine's steps (overhead_ms) comes on top. `folder` takes the trace.
    """
    shared = max(sample["cached_tokens"] or 0 for sample in samples)
    rows = [
        {
            "at_s": sample["due_s"],
            "prompt_tokens": sample["prompt_tokens"],
            "output_tokens": sample["output_tokens"],
            **({"prefix": "template", "prefix_tokens": shared} if 0 < shared < sample["prompt_tokens"] else {}),
        }
        for sample in samples
    ]
    (folder / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    engine = profile["engine"]
    kind = {key: engine[key] for key in ("max_sequences", "token_budget", "block_tokens")}
    scenario = {
        "title": "one replica, as measured",
        "duration_s": max(sample["due_s"] for sample in samples) + 1,
        "fleet": {"tier": {"replicas": 1, "profile": profile, **kind}},
        "streams": [{"tenant": "callers", "trace": "trace.jsonl"}],
        "arms": [{"name": "tier", "route": {"rule": "least-ongoing"}}],
    }
    ttft_ms = run(parse(Scenario, scenario, "the measured tier"), folder, 1)["arms"]["tier"]["ttft_ms"]
    return Ttft(ttft_ms["mean"] + profile["overhead_ms"], ttft_ms["p95"] + profile["overhead_ms"])
