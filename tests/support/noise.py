"""Minutes of noisy work on a real Serve deployment that scales by our policy: how often its target changed.

python -m tests.support.noise SECONDS     one JSON document on standard output
"""

import json
import os
import random
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

SETTLE_S = 60.0
BUSY, DEVIATION = 3.0, 1.0
RATE = 1000.0
SCALE = {
    "min_replicas": 1, "max_replicas": 12, "utilization_ceiling": 0.8, "headroom_fraction": 0.2, "look_back_s": 120.0,
}  # fmt: skip


def main() -> None:
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")])
    )
    os.environ["RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S"] = "1"
    os.environ["RAY_SERVE_REPLICA_AUTOSCALING_METRIC_RECORD_INTERVAL_S"] = "0.5"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    import ray
    from ray import serve

    from tests.support.joint_app import Llm

    ray.init(
        address="local", num_cpus=16, include_dashboard=False, log_to_driver=False, configure_logging=False,
        object_store_memory=100_000_000,
    )  # fmt: skip
    try:
        serve.start(proxy_location="Disabled")
        policy = {
            "policy_function": "serve_apps.autoscaling:HeadroomPolicy",
            "policy_kwargs": {"scale": SCALE, "prefill_tokens_per_s": RATE, "interval_s": 5.0},
        }
        bounds = {"min_replicas": 1, "max_replicas": 12, "upscale_delay_s": 0.0, "downscale_delay_s": 0.0}
        deployed = Llm.options(autoscaling_config=bounds | {"policy": policy})
        handle = serve.run(deployed.bind(), name="noise", route_prefix=None)
        print(json.dumps(_watch(handle, serve, float(sys.argv[1]))))
    finally:
        serve.shutdown()
        ray.shutdown()


def _watch(handle: Any, serve: Any, seconds: float) -> dict[str, Any]:
    rng = random.Random(1)
    begun_s = told_s = time.monotonic()
    targets: list[int] = []
    while (now_s := time.monotonic()) - begun_s < SETTLE_S + seconds:
        busy = max(0.0, rng.gauss(BUSY, DEVIATION))
        handle.work.remote(busy * RATE * (now_s - told_s)).result()
        told_s = now_s
        states = serve.status().applications["noise"].deployments["Llm"].replica_states
        count = sum(n for state, n in states.items() if state in ("RUNNING", "STARTING"))
        if now_s - begun_s > SETTLE_S and (not targets or targets[-1] != count):
            targets.append(count)
        time.sleep(0.25)
    rises = [b > a for a, b in pairwise(targets)]
    reversals = sum(a != b for a, b in pairwise(rises))
    return {"seconds": seconds, "targets": targets, "changes": len(rises), "reversals": reversals}


if __name__ == "__main__":
    main()
