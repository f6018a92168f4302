"""vLLM's `bench serve` on scripted servers, called where its command line ends up.

    python -m loadtests.truth.vllm_bench TOKENIZER_FOLDER

A task as a JSON line in, its figures in our names as a JSON line out.
"""

import asyncio
import contextlib
import json
import sys
from typing import Any


def measure(task: dict[str, Any], tokenizer: str) -> dict[str, float | None]:
    """One run of `vllm bench serve --backend openai-chat` at a constant rate."""
    from vllm.benchmarks.serve import add_cli_args, main_async
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = FlexibleArgumentParser()  # type: ignore[no-untyped-call]
    add_cli_args(parser)
    arguments = parser.parse_args([
        "--backend", "openai-chat", "--base-url", task["url"], "--endpoint", "/v1/chat/completions",
        "--model", "scripted", "--tokenizer", tokenizer, "--dataset-name", "random",
        "--random-input-len", "16", "--random-output-len", str(task["output_tokens"]),
        "--num-prompts", str(task["requests"]), "--request-rate", str(task["rate_per_s"]),
        "--burstiness", "1000000", "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90",
        "--goodput", f"ttft:{task['slo_ttft_ms']}", "--disable-tqdm",
    ])  # fmt: skip
    result = asyncio.run(main_async(arguments))
    good = result.get("request_goodput")
    duration = result["duration"]
    return {
        "due_ttft_ms p50": result.get("p50_ttft_ms"),
        "due_ttft_ms p90": result.get("p90_ttft_ms"),
        "inter_token_ms p50": result.get("p50_tpot_ms"),
        "inter_chunk_ms p50": result.get("p50_itl_ms"),
        "e2e_ms p50": result.get("p50_e2el_ms"),
        "e2e_ms p90": result.get("p90_e2el_ms"),
        "output_tokens": result.get("total_output_tokens"),
        "within_slo share": round(good * duration) / task["requests"] if good else None,
        "ok": result.get("completed"),
        "failures": task["requests"] - result["completed"],
    }


def main() -> None:
    out = sys.stdout
    for line in sys.stdin:
        with contextlib.redirect_stdout(sys.stderr):
            figures = measure(json.loads(line), sys.argv[1])
        print(json.dumps(figures), file=out, flush=True)


if __name__ == "__main__":
    main()
