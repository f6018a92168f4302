"""One file as a job on this machine alone: no deployment, no HTTP; a Ray cluster of its own, gone with it.

    python -m batch.solo FOLDER FILE [ROWS_IN_FLIGHT]

FOLDER keeps the store and the journal: the same command again goes on where it was ended. Answers are the stand-in's
(batch.engine.StubTier): what is left is the job itself, which is what this is for. Prints a JSON line a second.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from batch.engine import StubTier
from batch.files import Contents
from batch.share import FixedShare
from batch.store import Store, migrate
from batch.tables import Batch
from configs.batch import BatchConfig

TENANT, KEY = "local", "solo"


def config_in(folder: Path) -> BatchConfig:
    return BatchConfig(
        database=f"sqlite:///{folder.absolute()}/batch.db", files=str(folder.absolute() / "batch"),
        max_rows=2**40, lease_s=5, idle_s=0.1, jobs_at_once=1,
    )  # fmt: skip


def submit(config: BatchConfig, path: Path) -> Batch:
    """The job's batch: made at the first call, found at the next."""
    migrate(config.database_url())
    store, contents = Store(config.database_url()), Contents(config.files_url())
    found = store.batches(TENANT, 1, None)
    if found:
        return found[0]
    file = store.add_file(TENANT, path.name, "batch", path.stat().st_size)
    with path.open("rb") as source:
        contents.keep(file.id, source)
    return store.create_batch(TENANT, "/v1/chat/completions", file.id, "14d", None, KEY)


def state(store: Store, id: str) -> dict[str, Any]:
    batch = store.batch(TENANT, id)
    return {"status": batch.status, "completed": batch.completed, "failed": batch.failed, "total": batch.total}


def main() -> None:
    folder, path = Path(sys.argv[1]), Path(sys.argv[2])
    concurrency = int(sys.argv[3]) if len(sys.argv) > 3 else 256
    os.environ.update({"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"})
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    import ray

    from batch.worker import Worker

    config = config_in(folder)
    batch = submit(config, path)
    store = Store(config.database_url())
    ray.init(address="local", num_cpus=4, object_store_memory=200_000_000, include_dashboard=False, log_to_driver=False)
    worker = threading.Thread(target=Worker(config, StubTier(), FixedShare(concurrency)).work)
    worker.start()
    begun = time.monotonic()
    while worker.is_alive():
        worker.join(1)
        print(json.dumps({"at_s": time.monotonic() - begun, **state(store, batch.id)}), flush=True)
    ray.shutdown()
    ended = store.batch(TENANT, batch.id)
    for name, id in (("output", ended.output_file_id), ("error", ended.error_file_id)):
        if id is not None:
            print(json.dumps({name: Contents(config.files_url()).path(id)}), flush=True)
    sys.exit(0 if ended.status == "completed" else 1)


if __name__ == "__main__":
    main()
