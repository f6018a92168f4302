"""The LLM tier and, beside it, batch jobs under rules of one's own choosing: what `loadtest batch` measures.

    python -m serve_apps.batch_bench CONFIG.yaml

Says {"url": …} when it serves. Then each line of stdin asks for something, and one line on stdout answers it:

    {"do": "begin", "folder", "file", "rules", "priority"}   a job, or with "file": null only a look at the callers;
                                                             `rules` replace keys of planning.policies.harvest's
    {"do": "wait"}                                           until the job has ended
    {"do": "end"}                                            cancel it: what the harvest's ledger has
    {"do": "drive", "module", "arguments"}                   another driver on the same cluster, to its end

The end of stdin ends all. Where each row was is in FOLDER/rows.jsonl (batch.timed).
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from configs.deployment import load_deployment
from serve_apps import supervisor
from serve_apps.applications import llm_alone
from serve_apps.stopping import Stopped


def main() -> None:
    """stdout is for answers alone: whatever else is printed here goes to stderr.

    Ray is not imported before the tier serves: it takes its token from what `local.start` sets.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(document: dict[str, Any]) -> None:
        print(json.dumps(document), file=answers, flush=True)

    path = Path(sys.argv[1])
    deployment = load_deployment(path)

    def serve(url: str) -> None:
        from serve_apps.batch_bench_jobs import Bench

        Bench(deployment, say).serve(url)
        raise Stopped

    supervisor.supervise(deployment, path, lambda phase: print(phase, file=sys.stderr), serve, llm_alone())


if __name__ == "__main__":
    main()
