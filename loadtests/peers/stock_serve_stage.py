"""The peer of `loadtest batch --case order`: ray.data.llm's Serve stage as it comes, rows in the order of their file.

    RAY_ADDRESS=… python -m loadtests.peers.stock_serve_stage ROWS.jsonl APP SERVER IN_FLIGHT OUT.json

A batch of the stage is a row and IN_FLIGHT of them run at once, so that as many requests are in flight, and none waits
for the slowest of a batch. The time is from the dataset's making to its last row.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from configs.tenants import PRIORITIES

PRIORITY = PRIORITIES["batch"]
"""At the priority that a request has by itself, a caller's, the tier's router refuses what would wait long."""


def main() -> None:
    rows_path, app, server, in_flight, out = sys.argv[1:]
    os.environ["RAY_DATA_DEFAULT_ASYNC_BATCH_UDF_MAX_CONCURRENCY"] = in_flight  # read when ray.data is imported
    import ray
    from ray.data.llm import ServeDeploymentProcessorConfig, build_processor
    from ray.serve.llm.openai_api_models import ChatCompletionRequest

    ray.init(address=os.environ["RAY_ADDRESS"], log_to_driver=False)
    ray.data.DataContext.get_current().enable_progress_bars = False
    bodies = [json.loads(line)["body"] for line in Path(rows_path).read_text().splitlines()]
    config = ServeDeploymentProcessorConfig(
        deployment_name=server, app_name=app, dtype_mapping={"chat": ChatCompletionRequest}, batch_size=1,
        concurrency=1,
    )  # fmt: skip
    processor = build_processor(config, preprocess=_asked, postprocess=_usage)
    begun_s = time.monotonic()
    rows = [{"body": json.dumps(body)} for body in bodies]
    answered = processor(ray.data.from_items(rows, override_num_blocks=1)).take_all()
    wall_s = time.monotonic() - begun_s
    sums = {name: sum(row[name] for row in answered) for name in ("prompt_tokens", "cached_tokens", "output_tokens")}
    Path(out).write_text(json.dumps({"rows": len(answered), "wall_s": wall_s, **sums}))


def _asked(row: dict[str, Any]) -> dict[str, Any]:
    return {"method": "chat", "dtype": "chat", "request_kwargs": json.loads(row["body"]) | {"priority": PRIORITY}}


def _usage(row: dict[str, Any]) -> dict[str, Any]:
    usage = row["usage"]
    return {
        "prompt_tokens": usage["prompt_tokens"],
        "cached_tokens": (usage["prompt_tokens_details"] or {}).get("cached_tokens") or 0,
        "output_tokens": usage["completion_tokens"],
    }


if __name__ == "__main__":
    main()
